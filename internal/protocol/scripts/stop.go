// Code generated from ../lua/stop.lua by go generate; DO NOT EDIT.

package scripts

import (
	_ "embed"

	"turnstile/internal/redis/script"
)

//go:embed stop.lua
var stopLua string

// Stop is the script of stop.lua.
var Stop = newMove[StopArgs]("stop", stopLua, readStop)

// StopKeys are the KEYS of Stop.
func StopKeys(k Keys, call string) []string {
	return []string{k.Sentinel(), k.Run(), k.Record(), k.Followups(), k.Events(), k.Pending(), k.Processed(), k.ProcessedDay(), k.Archived(), k.Failed(), k.FailedDay(), k.Stopped(), k.Owed(), k.Outbox(), k.Deliveries(), k.Audit(), call}
}

// StopArgs are the arguments of Stop.
type StopArgs struct {
	Prefixes
	Stream
	By          string // who does it, '' if unknown: see audit
	Longest     int64  // how many bytes a task's msg may have
	BatchLimits string // "messages bytes" that a call archives
	Number      int64  // this call's: 1, 2 ...
	Deadline    int64  // do nothing after this ms: the sender has given up, and does not mean messages that came since
}

// Words are the arguments as ARGV has them.
func (a StopArgs) Words() []any {
	return []any{a.Task, a.By, a.Prefix, a.EventsCap, a.Short, a.LargeBytes, a.Longest, a.BatchLimits, a.Number, a.Deadline}
}

// StopResult is the result of Stop.
type StopResult struct {
	Status Status
	Phase  string
	Fence  int64
	Meant  int64
	More   bool
	Wake   bool
}

func readStop(l script.Result) (r StopResult) {
	switch s := Status(l.Text(0)); s {
	case Earlier, Late:
		r.Status = s
	default:
		r.Phase, r.Fence, r.Meant, r.More, r.Wake = l.Text(0), l.Int(1), l.Int(2), l.Bool(3), l.Bool(4)
	}
	return r
}
