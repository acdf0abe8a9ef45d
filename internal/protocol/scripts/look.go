// Code generated from ../lua/look.lua by go generate; DO NOT EDIT.

package scripts

import (
	_ "embed"

	"turnstile/internal/redis/script"
)

//go:embed look.lua
var lookLua string

// Look is the script of look.lua.
var Look = newMove[LookArgs]("look", lookLua, readLook)

// LookKeys are the KEYS of Look.
func LookKeys(k Keys) []string {
	return []string{k.Sentinel(), k.Run(), k.Record(), k.Resume(), k.Journal(), k.Pending(), k.Active(), k.Lease(), k.Paused(), k.Scheduled(), k.Retry(), k.Completed(), k.Archived(), k.Stopped()}
}

// LookArgs are the arguments of Look.
type LookArgs struct {
	Task string // prefix of the session's task hashes
}

// Words are the arguments as ARGV has them.
func (a LookArgs) Words() []any {
	return []any{a.Task}
}

// LookResult is the result of Look.
type LookResult struct {
	Now   int64
	State string
	N     int64
}

func readLook(l script.Result) (r LookResult) {
	r.Now, r.State, r.N = l.Int(0), l.Text(1), l.Int(2)
	return r
}
