// Code generated from ../lua/store_state.lua by go generate; DO NOT EDIT.

package scripts

import (
	_ "embed"

	"turnstile/internal/redis/script"
)

//go:embed store_state.lua
var storeStateLua string

// StoreState is the script of store_state.lua.
var StoreState = newMove[StoreStateArgs]("store_state", storeStateLua, readStoreState)

// StoreStateKeys are the KEYS of StoreState.
func StoreStateKeys(k Keys) []string {
	return []string{k.Sentinel(), k.Run(), k.State()}
}

// StoreStateArgs are the arguments of StoreState.
type StoreStateArgs struct {
	Owner
	TTL      int64  // the sentinel's, ms
	Content  string // the state, JSON; '': delete it
	StateTTL int64  // ms
}

// Words are the arguments as ARGV has them.
func (a StoreStateArgs) Words() []any {
	return []any{a.Token, a.Fence, a.TTL, a.Content, a.StateTTL}
}

// StoreStateResult is the result of StoreState.
type StoreStateResult struct {
	Status Status
}

func readStoreState(l script.Result) (r StoreStateResult) {
	r.Status = Status(l.Text(0))
	return r
}
