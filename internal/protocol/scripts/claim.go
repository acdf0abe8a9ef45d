// Code generated from ../lua/claim.lua by go generate; DO NOT EDIT.

package scripts

import (
	_ "embed"

	"turnstile/internal/redis/script"
)

//go:embed claim.lua
var claimLua string

// Claim is the script of claim.lua.
var Claim = newMove[ClaimArgs]("claim", claimLua, readClaim)

// ClaimKeys are the KEYS of Claim.
func ClaimKeys(k Keys) []string {
	return []string{k.Sentinel(), k.Run(), k.Record(), k.Followups(), k.Resume(), k.Events(), k.Journal(), k.Pending(), k.Active(), k.Lease(), k.Paused(), k.Scheduled(), k.Retry(), k.Processed(), k.ProcessedDay(), k.Archived(), k.Failed(), k.FailedDay(), k.Stopped(), k.Owed(), k.Outbox(), k.Deliveries(), k.State()}
}

// ClaimArgs are the arguments of Claim.
type ClaimArgs struct {
	Prefixes
	Stream
	TTL           int64 // the sentinel's, ms
	Worker        string
	Phase         string // of the new turn
	Mode          string // this worker's busy mode
	Cap           int64  // its cap of follow-ups
	Drop          string // its drop policy
	Debounce      int64  // its quiet window, ms
	Warm          bool   // it keeps agents warm
	Longest       int64  // how many bytes a task's msg may have
	StuckLimit    int64  // interruptions in a row that suspend
	CrashSuspends bool
	StopBatch     string // "messages bytes" of a /stop that a claim archives
	TurnLimits    string // "messages bytes" that a turn has at most, unless the first alone has more
	Serves        string // the names of the agents that this worker runs, each between blanks
	Elsewhere     string // those that other living workers run, likewise; '': unknown
	Token         string // new for every claim
	FreshSID      string // a fresh transcript id
	Agent         string // for a session that has none yet, by its key
}

// Words are the arguments as ARGV has them.
func (a ClaimArgs) Words() []any {
	return []any{a.TTL, a.Worker, a.Phase, a.Mode, a.Cap, a.Drop, a.Debounce, Flag(a.Warm), a.Longest, a.StuckLimit, a.EventsCap, a.Short, a.LargeBytes, Flag(a.CrashSuspends), a.StopBatch, a.TurnLimits, a.Serves, a.Elsewhere, a.Task, a.Token, a.FreshSID, a.Agent, a.Prefix}
}

//go:embed claim_fast.lua
var claimFastLua string

// ClaimFast is the script of claim_fast.lua, the fast path.
var ClaimFast = newMove[ClaimFastArgs]("claim_fast", claimFastLua, readClaim)

// ClaimFastKeys are the KEYS of ClaimFast.
func ClaimFastKeys(k Keys) []string {
	return []string{k.Sentinel(), k.Run(), k.Followups(), k.Resume(), k.Journal(), k.Paused(), k.Scheduled(), k.Active(), k.Record(), k.Pending()}
}

// ClaimFastShared are the arguments that all calls of ClaimFast in a command share.
type ClaimFastShared struct {
	TTL      int64 // the sentinel's, ms
	Worker   string
	Phase    string // of the new turn
	Mode     string // this worker's busy mode
	Cap      int64  // its cap of follow-ups
	Drop     string // its drop policy
	Debounce int64  // its quiet window, ms
	Warm     bool   // it keeps agents warm
	Longest  int64  // how many bytes a task's msg may have
}

// Words are the arguments as ARGV has them.
func (a ClaimFastShared) Words() []any {
	return []any{a.TTL, a.Worker, a.Phase, a.Mode, a.Cap, a.Drop, a.Debounce, Flag(a.Warm), a.Longest}
}

// ClaimFastArgs are the other arguments of ClaimFast.
type ClaimFastArgs struct {
	Task     string // prefix of the session's task hashes
	Token    string // new for every claim
	FreshSID string // a fresh transcript id
	Agent    string // for a session that has none yet, by its key
}

// Words are the arguments as ARGV has them.
func (a ClaimFastArgs) Words() []any {
	return []any{a.Task, a.Token, a.FreshSID, a.Agent}
}

// ClaimResult is the result of Claim.
type ClaimResult struct {
	Status    Status
	Dead      int64
	Left      int64
	Now       int64
	Agent     string
	Missing   int64
	Fence     int64
	SID       string
	Entries   int64
	Dropped   string
	Messages  []Message
	Reset     string
	Resume    string
	Carries   string
	Began     int64
	Keeps     int64
	Ends      string
	Throttled string
	At        int64
}

func readClaim(l script.Result) (r ClaimResult) {
	switch r.Status = Status(l.Text(0)); r.Status {
	case Again:
		r.Dead = l.Int(1)
	case Held:
		r.Left = l.Int(1)
	case Other:
		r.Now, r.Agent, r.Missing = l.Int(1), l.Text(2), l.Int(3)
	case Turn:
		r.Now, r.Fence, r.SID, r.Entries, r.Dropped, r.Messages, r.Reset, r.Resume, r.Agent, r.Carries, r.Began, r.Keeps, r.Ends, r.Throttled = l.Int(1), l.Int(2), l.Text(3), l.Int(4), l.Text(5), records(l.List(6), readMessage), l.Text(7), l.Text(8), l.Text(9), l.Text(10), l.Int(11), l.Int(12), l.Text(13), l.Text(14)
	case Wait:
		r.At = l.Int(1)
	}
	return r
}
