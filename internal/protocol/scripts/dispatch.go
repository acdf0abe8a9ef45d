// Code generated from ../lua/dispatch.lua by go generate; DO NOT EDIT.

package scripts

import (
	_ "embed"

	"turnstile/internal/redis/script"
)

//go:embed dispatch.lua
var dispatchLua string

// Dispatch is the script of dispatch.lua.
var Dispatch = newMove[DispatchArgs]("dispatch", dispatchLua, readDispatch)

// DispatchKeys are the KEYS of Dispatch.
func DispatchKeys(k Keys, ready string, sorted string, place string, holds string, ends string, running string, limits string, waits string, fair string) []string {
	return []string{ready, sorted, place, holds, ends, running, limits, waits, fair}
}

// DispatchArgs are the arguments of Dispatch.
type DispatchArgs struct {
	Queue   string   // prefix of the agents' queues
	Held    string   // prefix of those that are held back
	Bell    string   // prefix of the agents' bells
	TTL     int64    // of the holds, ms
	Token   string   // of the holds
	Most    int64    // how many sessions to take
	Named   string   // '', or the only session to take
	Agents  []string // whose sessions to take
	Arrived []string // sessions that have arrived, at most 128
	Since   []string // since when each of them waits, ms; with a minus if the caller has taken it off the index, 0: now
	Tenants []string // the tenant of each
	Shares  []string // 10^6 / weight of that tenant
	To      []string // the place of each
}

// Words are the arguments as ARGV has them.
func (a DispatchArgs) Words() []any {
	return words([]any{a.Queue, a.Held, a.Bell, a.TTL, a.Token, a.Most, a.Named}, a.Agents, a.Arrived, a.Since, a.Tenants, a.Shares, a.To)
}

// DispatchResult is the result of Dispatch.
type DispatchResult struct {
	Found script.Result
	Held  script.Result
	More  bool
	Rest  script.Result
}

func readDispatch(l script.Result) (r DispatchResult) {
	r.Found, r.Held, r.More, r.Rest = l.List(0), l.List(1), l.Bool(2), l.List(3)
	return r
}
