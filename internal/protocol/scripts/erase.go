// Code generated from ../lua/erase.lua by go generate; DO NOT EDIT.

package scripts

import (
	_ "embed"

	"turnstile/internal/redis/script"
)

//go:embed erase.lua
var eraseLua string

// Erase is the script of erase.lua.
var Erase = newMove[EraseArgs]("erase", eraseLua, readErase)

// EraseKeys are the KEYS of Erase.
func EraseKeys(k Keys, others ...string) []string {
	return append([]string{k.Sentinel(), k.Run(), k.Record(), k.Followups(), k.Resume(), k.Events(), k.Transcript(), k.Partial(), k.Journal(), k.Pending(), k.Active(), k.Lease(), k.Paused(), k.Scheduled(), k.Retry(), k.Completed(), k.Processed(), k.ProcessedDay(), k.Archived(), k.Failed(), k.FailedDay(), k.Stopped(), k.State(), k.Owed(), k.Outbox(), k.Deliveries(), k.Undelivered(), k.Audit()}, others...)
}

// EraseArgs are the arguments of Erase.
type EraseArgs struct {
	Prefixes
	Idem   string // prefix of the keys of ids that senders named
	Fence  string // of the last turn when the keys were looked up, '': none
	Size   int64  // how many tasks a batch has
	Unused int64  // erase nothing unless no message waits and the last turn ended this many ms ago; 0: whatever waits
	Last   bool   // these are all its keys; else this call erases at most a batch
	Keep   bool   // erase nothing while a delivery is owed or undelivered
}

// Words are the arguments as ARGV has them.
func (a EraseArgs) Words() []any {
	return []any{a.Task, a.Prefix, a.Idem, a.Fence, a.Size, a.Unused, Flag(a.Last), Flag(a.Keep)}
}

// EraseResult is the result of Erase.
type EraseResult struct {
	Status   Status
	N        int64
	Promised int64
	Stored   int64
	At       int64
}

func readErase(l script.Result) (r EraseResult) {
	switch r.Status = Status(l.Text(0)); r.Status {
	case Batch:
		r.N = l.Int(1)
	case Owed:
		r.Promised, r.Stored = l.Int(1), l.Int(2)
	case Used:
		r.At = l.Int(1)
	}
	return r
}
