// Code generated from ../lua/cancel.lua by go generate; DO NOT EDIT.

package scripts

import (
	_ "embed"

	"turnstile/internal/redis/script"
)

//go:embed cancel.lua
var cancelLua string

// Cancel is the script of cancel.lua.
var Cancel = newMove[CancelArgs]("cancel", cancelLua, readCancel)

// CancelKeys are the KEYS of Cancel.
func CancelKeys(k Keys, call string) []string {
	return []string{k.Sentinel(), k.Run(), k.Followups(), k.Events(), k.Journal(), k.Pending(), k.Active(), k.Scheduled(), k.Retry(), k.Processed(), k.ProcessedDay(), k.Archived(), k.Failed(), k.FailedDay(), k.Stopped(), k.Owed(), k.Outbox(), k.Deliveries(), k.Audit(), call}
}

// CancelArgs are the arguments of Cancel.
type CancelArgs struct {
	Prefixes
	Stream
	By       string // who does it, '' if unknown: see audit
	Longest  int64  // how many bytes a task's msg may have
	ID       string // of the task
	TurnToo  bool   // also if it is part of a turn
	Deadline int64  // do nothing after this ms: the sender has given up
}

// Words are the arguments as ARGV has them.
func (a CancelArgs) Words() []any {
	return []any{a.Task, a.By, a.Prefix, a.EventsCap, a.Short, a.LargeBytes, a.Longest, a.ID, Flag(a.TurnToo), a.Deadline}
}

// CancelResult is the result of Cancel.
type CancelResult struct {
	Status Status
	State  string
	Result string
	Now    int64
	Wake   bool
}

func readCancel(l script.Result) (r CancelResult) {
	switch r.Status = Status(l.Text(0)); r.Status {
	case Ended:
		r.State, r.Result = l.Text(1), l.Text(2)
	case Ending:
		r.Now, r.Wake = l.Int(1), l.Bool(2)
	case Taken:
		r.Now, r.Wake = l.Int(1), l.Bool(2)
	}
	return r
}
