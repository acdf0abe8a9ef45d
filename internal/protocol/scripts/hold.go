// Code generated from ../lua/hold.lua by go generate; DO NOT EDIT.

package scripts

import (
	_ "embed"

	"turnstile/internal/redis/script"
)

//go:embed hold.lua
var holdLua string

// Hold is the script of hold.lua.
var Hold = newMove[HoldArgs]("hold", holdLua, readHold)

// HoldKeys are the KEYS of Hold.
func HoldKeys(k Keys, holds string, ends string, running string, limits string, place string, waits string) []string {
	return []string{holds, ends, running, limits, place, waits}
}

// HoldArgs are the arguments of Hold.
type HoldArgs struct {
	Queue    string   // prefix of the agents' queues
	Held     string   // prefix of those that are held back
	Bell     string   // prefix of the agents' bells
	TTL      int64    // of the holds from now, ms. 0: release them
	Sessions []string // at most 1,000
	Tokens   []string // of their holds
}

// Words are the arguments as ARGV has them.
func (a HoldArgs) Words() []any {
	return words([]any{a.Queue, a.Held, a.Bell, a.TTL}, a.Sessions, a.Tokens)
}

// HoldResult is the result of Hold.
type HoldResult struct {
	Kept int64
}

func readHold(l script.Result) (r HoldResult) {
	r.Kept = l.Int(0)
	return r
}
