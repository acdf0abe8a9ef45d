// Code generated from ../lua/index_owned.lua by go generate; DO NOT EDIT.

package scripts

import (
	_ "embed"

	"turnstile/internal/redis/script"
)

//go:embed index_owned.lua
var indexOwnedLua string

// IndexOwned is the script of index_owned.lua.
var IndexOwned = newMove[IndexOwnedArgs]("index_owned", indexOwnedLua, readIndexOwned)

// IndexOwnedArgs are the arguments of IndexOwned.
type IndexOwnedArgs struct {
	TTL      int64    // in how many ms
	Sessions []string // at most 1,000
}

// Words are the arguments as ARGV has them.
func (a IndexOwnedArgs) Words() []any {
	return words([]any{a.TTL}, a.Sessions)
}

// IndexOwnedResult is the result of IndexOwned.
type IndexOwnedResult struct {
	Moved int64
}

func readIndexOwned(l script.Result) (r IndexOwnedResult) {
	r.Moved = l.Int(0)
	return r
}
