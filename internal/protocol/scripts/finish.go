// Code generated from ../lua/finish.lua by go generate; DO NOT EDIT.

package scripts

import (
	_ "embed"
	"time"

	"turnstile/internal/redis/script"
)

//go:embed finish.lua
var finishLua string

// Finish is the script of finish.lua.
var Finish = newMove[FinishArgs]("finish", finishLua, readFinish)

// FinishKeys are the KEYS of Finish.
func FinishKeys(k Keys) []string {
	return []string{k.Sentinel(), k.Run(), k.Record(), k.Followups(), k.Resume(), k.Events(), k.Transcript(), k.Journal(), k.Pending(), k.Active(), k.Lease(), k.Paused(), k.Scheduled(), k.Retry(), k.Completed(), k.Processed(), k.ProcessedDay(), k.Archived(), k.Failed(), k.FailedDay(), k.Owed(), k.Outbox(), k.Deliveries()}
}

// FinishArgs are the arguments of Finish.
type FinishArgs struct {
	Prefixes
	Owner
	Stream
	TranscriptTTL int64    // ms
	Phase         string   // of a next turn
	Longest       int64    // how many bytes a task's msg may have
	Warm          bool     // the worker keeps agents warm
	TTL           int64    // the sentinel's, ms
	TurnLimits    string   // "messages bytes" that a turn has at most
	Retention     int64    // seconds
	Outcome       string   // JSON: the event and the tasks' result
	Start         string   // the turn's start, JSON, if the stream does not have it yet, or ''
	Bounds        string   // of the transcript, see bound_transcript; '': it is not bounded now
	Release       bool     // take no next message
	Why           string   // the reason, if the messages are archived, else ''
	Well          bool     // the turn is done: clear mark and interruptions
	SID           string   // the turn's transcript id
	Noted         bool     // the turn began with notes of dropped messages
	ToldIDs       int64    // how many ids of dropped messages it has told its agent
	Omitted       int64    // the record's omitted when the turn got the notes
	ShortOutcome  string   // JSON, of a turn of many messages: the result of all but the first one; '': the outcome
	Ending        []string // ids of the messages that end
	Untaken       []string // ids of steered messages that go back to their places in the queue, or are archived if a stop of this turn was requested
	Entries       []string // JSON
}

// Words are the arguments as ARGV has them.
func (a FinishArgs) Words() []any {
	return words([]any{a.EventsCap, a.Short, a.LargeBytes, a.TranscriptTTL, a.Phase, a.Longest, Flag(a.Warm), a.TTL, a.TurnLimits, a.Retention, a.Task, a.Token, a.Fence, a.Outcome, a.Start, a.Bounds, a.Prefix, Flag(a.Release), a.Why, Flag(a.Well), a.SID, Flag(a.Noted), a.ToldIDs, a.Omitted, a.ShortOutcome}, a.Ending, a.Untaken, a.Entries)
}

//go:embed finish_fast.lua
var finishFastLua string

// FinishFast is the script of finish_fast.lua, the fast path.
var FinishFast = newMove[FinishFastArgs]("finish_fast", finishFastLua, readFinish)

// FinishFastKeys are the KEYS of FinishFast.
func FinishFastKeys(k Keys) []string {
	return []string{k.Sentinel(), k.Run(), k.Followups(), k.Paused(), k.Scheduled(), k.Retry(), k.Events(), k.Transcript(), k.Pending(), k.Active(), k.Completed(), k.Processed(), k.ProcessedDay()}
}

// FinishFastShared are the arguments that all calls of FinishFast in a command share.
type FinishFastShared struct {
	Stream
	TranscriptTTL int64  // ms
	Phase         string // of a next turn
	Longest       int64  // how many bytes a task's msg may have
	Warm          bool   // the worker keeps agents warm
}

// Words are the arguments as ARGV has them.
func (a FinishFastShared) Words() []any {
	return []any{a.EventsCap, a.Short, a.LargeBytes, a.TranscriptTTL, a.Phase, a.Longest, Flag(a.Warm)}
}

// FinishFastArgs are the other arguments of FinishFast.
type FinishFastArgs struct {
	Owner
	Task           string   // prefix of the task hashes
	Outcome        string   // JSON: the event and the tasks' result
	Start          string   // the turn's start, JSON, if the stream does not have it yet, or ''
	Bounds         string   // of the transcript, see bound_transcript; '': it is not bounded now
	ID             string   // of the task
	Msg            string   // its message, completed
	FollowingFence string   // of the next turn; '': take no next message
	Now            int64    // Redis' clock, ms, as the worker estimates it
	Score          int64    // of a completed task, seconds
	Total          int64    // entries of the transcript with these
	Done           int64    // ended messages that are not counted yet, with this
	Entries        []string // JSON
}

// Words are the arguments as ARGV has them.
func (a FinishFastArgs) Words() []any {
	return words([]any{a.Task, a.Token, a.Fence, a.Outcome, a.Start, a.Bounds, a.ID, a.Msg, a.FollowingFence, a.Now, a.Score, a.Total, a.Done}, a.Entries)
}

// FinishResult is the result of Finish.
type FinishResult struct {
	Status      Status
	ID          string
	Msg         string
	Age         time.Duration
	Redelivered int64
	Unique      bool
	Now         int64
	Fence       int64
	SID         string
	Entries     int64
	Dropped     string
	Messages    []Message
	At          int64
}

func readFinish(l script.Result) (r FinishResult) {
	switch r.Status = Status(l.Text(0)); r.Status {
	case Following:
		r.ID, r.Msg, r.Age, r.Redelivered, r.Unique = l.Text(1), l.Text(2), l.Millis(3), l.Int(4), l.Bool(5)
	case Next:
		r.Now, r.Fence, r.SID, r.Entries, r.Dropped, r.Messages = l.Int(1), l.Int(2), l.Text(3), l.Int(4), l.Text(5), records(l.List(6), readMessage)
	case Released:
		r.At, r.Now = l.Int(1), l.Int(2)
	}
	return r
}
