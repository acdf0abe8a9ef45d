// Code generated from ../lua/mark.lua by go generate; DO NOT EDIT.

package scripts

import (
	_ "embed"

	"turnstile/internal/redis/script"
)

//go:embed mark.lua
var markLua string

// Mark is the script of mark.lua.
var Mark = newMove[MarkArgs]("mark", markLua, readMark)

// MarkKeys are the KEYS of Mark.
func MarkKeys(k Keys) []string {
	return []string{k.Sentinel(), k.Run(), k.Resume(), k.Journal()}
}

// MarkArgs are the arguments of Mark.
type MarkArgs struct {
	Owner
	TTL        int64 // the sentinel's, ms
	Reason     string
	StuckLimit int64 // interruptions in a row that suspend the session
	Age        int64 // for how long the worker has run, ms
	Progressed bool  // this run has ended a tool that no earlier one had
}

// Words are the arguments as ARGV has them.
func (a MarkArgs) Words() []any {
	return []any{a.Token, a.Fence, a.TTL, a.Reason, a.StuckLimit, a.Age, Flag(a.Progressed)}
}

// MarkResult is the result of Mark.
type MarkResult struct {
	Status Status
}

func readMark(l script.Result) (r MarkResult) {
	r.Status = Status(l.Text(0))
	return r
}
