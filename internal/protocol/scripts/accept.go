// Code generated from ../lua/accept.lua by go generate; DO NOT EDIT.

package scripts

import (
	_ "embed"

	"turnstile/internal/redis/script"
)

//go:embed accept.lua
var acceptLua string

// Accept is the script of accept.lua.
var Accept = newMove[AcceptArgs]("accept", acceptLua, readAccept)

// AcceptKeys are the KEYS of Accept.
func AcceptKeys(k Keys, idem string) []string {
	return []string{k.Sentinel(), k.Run(), k.Record(), k.Followups(), k.Events(), k.Pending(), k.Active(), k.Scheduled(), k.Retry(), k.Processed(), k.ProcessedDay(), k.Archived(), k.Failed(), k.FailedDay(), k.Owed(), k.Outbox(), k.Deliveries(), idem}
}

// AcceptArgs are the arguments of Accept.
type AcceptArgs struct {
	Prefixes
	Stream
	Longest   int64    // how many bytes a task's msg may have
	Session   string   // its key
	ID        string   // of the task
	Msg       string   // the task, as asynq encodes it
	Nonce     string   // of this sender, in msg
	Mode      string   // busy mode, or '' for the session's
	LineCap   int64    // how many messages may wait, at most half of them (rounded up) delayed
	To        string   // destination of the outcome; '': the session's own, else fallback; '-': none
	Hash      string   // of the message as the sender wants it, if it chose the id, else ''
	IdemTTL   int64    // how long another hash is a conflict, ms
	Delay     int64    // how long it waits before it joins the queue, ms
	Followup  string   // JSON object
	Fallback  string   // destination, or ''
	Context   string   // JSON for the destination, or ''
	DeliverBy int64    // deadline of the delivery, ms; 0: the destination's
	Lasts     int64    // the same from now on, ms; 0: see deliver_by
	OutboxCap int64    // how many deliveries the session may owe and store
	After     string   // id of the task that it must directly follow, or ''
	Agent     string   // that the session gets with it; '': the one by its key
	Full      []string // destinations that have reached their cap over all sessions
}

// Words are the arguments as ARGV has them.
func (a AcceptArgs) Words() []any {
	return words([]any{a.EventsCap, a.Short, a.LargeBytes, a.Longest, a.Task, a.Session, a.ID, a.Msg, a.Nonce, a.Mode, a.LineCap, a.To, a.Hash, a.IdemTTL, a.Prefix, a.Delay, a.Followup, a.Fallback, a.Context, a.DeliverBy, a.Lasts, a.OutboxCap, a.After, a.Agent}, a.Full)
}

//go:embed accept_fast.lua
var acceptFastLua string

// AcceptFast is the script of accept_fast.lua, the fast path.
var AcceptFast = newMove[AcceptFastArgs]("accept_fast", acceptFastLua, readAccept)

// AcceptFastKeys are the KEYS of AcceptFast.
func AcceptFastKeys(k Keys, idem string) []string {
	return []string{k.Sentinel(), k.Run(), k.Record(), k.Followups(), k.Pending(), idem}
}

// AcceptFastArgs are the other arguments of AcceptFast.
type AcceptFastArgs struct {
	Task    string // prefix of the session's task hashes
	Session string // its key
	ID      string // of the task
	Msg     string // the task, as asynq encodes it
	Nonce   string // of this sender, in msg
	Mode    string // busy mode, or '' for the session's
	LineCap int64  // how many messages may wait, at most half of them (rounded up) delayed
	To      string // destination of the outcome; '': the session's own, else fallback; '-': none
	Hash    string // of the message as the sender wants it, if it chose the id, else ''
	IdemTTL int64  // how long another hash is a conflict, ms
}

// Words are the arguments as ARGV has them.
func (a AcceptFastArgs) Words() []any {
	return []any{a.Task, a.Session, a.ID, a.Msg, a.Nonce, a.Mode, a.LineCap, a.To, a.Hash, a.IdemTTL}
}

// AcceptResult is the result of Accept.
type AcceptResult struct {
	Status    Status
	Now       int64
	State     string
	N         int64
	Duplicate bool
}

func readAccept(l script.Result) (r AcceptResult) {
	switch s := Status(l.Text(0)); s {
	case Special:
		r.Status = s
	default:
		r.Now, r.State, r.N, r.Duplicate = l.Int(0), l.Text(1), l.Int(2), l.Bool(3)
	}
	return r
}
