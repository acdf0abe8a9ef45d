// Code generated from ../lua/park.lua by go generate; DO NOT EDIT.

package scripts

import (
	_ "embed"

	"turnstile/internal/redis/script"
)

//go:embed park.lua
var parkLua string

// Park is the script of park.lua.
var Park = newMove[ParkArgs]("park", parkLua, readPark)

// ParkKeys are the KEYS of Park.
func ParkKeys(k Keys) []string {
	return []string{k.Sentinel(), k.Run(), k.Resume(), k.Events(), k.Journal(), k.Pending(), k.Active(), k.Lease(), k.Scheduled(), k.Retry(), k.Processed(), k.ProcessedDay(), k.Outbox(), k.Deliveries()}
}

// ParkArgs are the arguments of Park.
type ParkArgs struct {
	Prefixes
	Owner
	Stream
	Wait       int64    // before it may be claimed again, ms; 0: at once
	Attempts   string   // so far, for asynq's retried; '': none was spent
	Why        string   // the error, if an attempt was spent
	Event      string   // JSON
	Start      string   // the turn's start, JSON, if the stream does not have it yet, or ''
	JournalTTL int64    // ms
	Reason     string   // why a running turn was interrupted, for the resume mark; '': it was not
	StuckLimit int64    // interruptions in a row that suspend the session; a lost lease is none
	Age        int64    // for how long the worker has run, ms
	Progressed bool     // this run has ended a tool that no earlier one had
	Waits      string   // the number of the open question for whose decision it waits, see ask; '': none
	Throttled  bool     // a provider asks for the wait: that is neither an attempt nor an interruption
	IDs        []string // of the tasks, oldest first
}

// Words are the arguments as ARGV has them.
func (a ParkArgs) Words() []any {
	return words([]any{a.Task, a.Prefix, a.Token, a.Fence, a.EventsCap, a.Short, a.LargeBytes, a.Wait, a.Attempts, a.Why, a.Event, a.Start, a.JournalTTL, a.Reason, a.StuckLimit, a.Age, Flag(a.Progressed), a.Waits, Flag(a.Throttled)}, a.IDs)
}

// ParkResult is the result of Park.
type ParkResult struct {
	Status  Status
	At      int64
	Now     int64
	Request string
}

func readPark(l script.Result) (r ParkResult) {
	switch r.Status = Status(l.Text(0)); r.Status {
	case Released:
		r.At, r.Now = l.Int(1), l.Int(2)
	case Requested:
		r.Request = l.Text(1)
	}
	return r
}
