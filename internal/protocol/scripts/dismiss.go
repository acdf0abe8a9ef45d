// Code generated from ../lua/dismiss.lua by go generate; DO NOT EDIT.

package scripts

import (
	_ "embed"

	"turnstile/internal/redis/script"
)

//go:embed dismiss.lua
var dismissLua string

// Dismiss is the script of dismiss.lua.
var Dismiss = newMove[DismissArgs]("dismiss", dismissLua, readDismiss)

// DismissKeys are the KEYS of Dismiss.
func DismissKeys(k Keys) []string {
	return []string{k.Sentinel(), k.Run(), k.Followups(), k.Events(), k.Active(), k.Lease(), k.Processed(), k.ProcessedDay(), k.Archived(), k.Failed(), k.FailedDay(), k.Owed(), k.Outbox(), k.Deliveries()}
}

// DismissArgs are the arguments of Dismiss.
type DismissArgs struct {
	Prefixes
	Owner
	Stream
	TTL     int64  // the sentinel's, ms
	ID      string // of the task
	Own     string // the message's own id
	Why     string
	Outcome string // JSON
}

// Words are the arguments as ARGV has them.
func (a DismissArgs) Words() []any {
	return []any{a.Task, a.Prefix, a.Token, a.Fence, a.EventsCap, a.Short, a.LargeBytes, a.TTL, a.ID, a.Own, a.Why, a.Outcome}
}

// DismissResult is the result of Dismiss.
type DismissResult struct {
	Status Status
}

func readDismiss(l script.Result) (r DismissResult) {
	r.Status = Status(l.Text(0))
	return r
}
