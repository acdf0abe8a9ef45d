package protocol

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"turnstile/internal/script"
	"turnstile/pkg/session"
)

// End is how a turn ended.
type End struct {
	Status  session.Status
	Reply   string
	Error   string          // why it did not end well
	Entries []session.Entry // what goes into the transcript
	Usage   *session.Usage  // of the turn, nil: not known

	// Rollback: the turn is taken back. Its messages are archived, although its
	// status is StatusInterrupted.
	Rollback bool

	// Untaken are the ids of messages that Steer had answered and the agent has not
	// taken: they go back to their places in the line, or are archived if a /stop has
	// come before this.
	Untaken []string

	// Told is how many of Turn.Dropped the agent was told of, and of Turn.Omitted too
	// if it is not 0.
	Told int

	// Release gives the sentinel up even if more messages wait.
	Release bool
}

// archives reports whether the turn's message becomes a dead letter.
func (e End) archives() bool {
	return e.Status != session.StatusDone && (e.Status != session.StatusInterrupted || e.Rollback)
}

// Finish ends the turn: ack or archive, transcript, reply and statistics in one
// script. Then either the next message is taken under the same sentinel and a
// new fence (more is true, and Turn tells what), or the hold is over.
func (h *Claim) Finish(ctx context.Context, end End) (more bool, err error) {
	defer h.ends()() // also between the two scripts: the first may have released it, unheard
	w, err := h.written(end)
	if err != nil {
		return false, err
	}
	if h.mayBePlain(end) {
		if done, more, err := h.finishPlain(ctx, end, w); done || err != nil {
			return more, err
		}
	}
	args, err := h.finishArgs(end, w)
	if err != nil {
		return false, err
	}
	last, sent := h.Turn(), time.Now()
	s, nkeys := finishScript, keysToProcessed
	if end.archives() || len(end.Untaken) > 0 { // which a /stop may have been meant for
		s, nkeys = failScript, allKeys
	}
	reply, err := h.move(ctx, "finish", s, nkeys, false, args...)
	if err != nil {
		return false, err
	}
	if reply.Text(0) == "released" {
		return false, h.released(ctx, reply)
	}
	h.begin(sent, reply)
	if end.Status != session.StatusDone {
		h.keep(last)
	}
	return true, nil
}

// keep tells the next turn of the resume mark that the last one's claim has found.
// That was not finished, so it is still there, as a claim would see.
func (h *Claim) keep(last Turn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if last.Resume != "" && last.SessionID == h.turn.SessionID {
		h.turn.Resume, h.turn.ResumeAge = last.Resume, last.ResumeAge+h.turn.Started.Sub(last.Started)
	}
}

// finishRest is what only some turns' ends need, see lua/finish.lua.
type finishRest struct {
	TTL       int64  `json:"ttl"`
	Archive   string `json:"archive,omitempty"`
	Retention int64  `json:"retention"`
	Done      bool   `json:"done"`
	SID       string `json:"sid"`
	Noted     bool   `json:"noted"`
	Told      int    `json:"told"`
	Omitted   int64  `json:"omitted"`
	Ending    int    `json:"ending"`
	Back      int    `json:"back"`
	Prefix    string `json:"prefix"`
	Result    string `json:"result,omitempty"`
}

// The most that the results of one turn's messages may have together, in bytes: for
// each to name all messages, and for each to have the reply.
const (
	resultsNamed   = 256 << 10
	resultsReplied = 4 << 20
)

// shortResult is the result of the messages of a turn behind the first one: "" if it is
// the turn's end as it is announced, else without their names and, if it is still too
// long, without the reply.
func shortResult(e session.Event, outcome string) (string, error) {
	n := len(e.Messages)
	if n == 1 || n*len(outcome) <= resultsNamed {
		return "", nil
	}
	e.Messages = nil
	short, err := marshal(e)
	if err == nil && n*len(short) > resultsReplied {
		e.Reply = ""
		short, err = marshal(e)
	}
	return short, err
}

func (h *Claim) finishArgs(end End, w written) ([]any, error) {
	c := h.consumer.cfg
	turn := h.Turn()
	ending, back := h.split(end.Untaken)
	rest := finishRest{
		TTL: c.SentinelTTL.Milliseconds(), Retention: int64(c.Retention / time.Second), Done: end.Status == session.StatusDone, SID: turn.SessionID,
		Noted: len(turn.Dropped) > 0, Told: turn.told(end.Told), Omitted: turn.notes.omitted, Ending: len(ending), Back: len(back), Prefix: h.prefix, Result: w.result,
	}
	if end.archives() {
		rest.Archive = cmp.Or(text(end.Error), string(end.Status))
	}
	others, err := marshal(rest)
	if err != nil {
		return nil, fmt.Errorf("encode %+v: %w", rest, err)
	}
	phase := h.consumer.phase()
	if end.Release {
		phase = ""
	}
	args := []any{w.outcome, w.start, h.consumer.limits, phase, others}
	for _, p := range append(ending, back...) {
		args = append(args, p.taskID)
	}
	return append(args, w.entries...), nil
}

// written is what a turn's end leaves, as JSON.
type written struct {
	outcome, start string // start is "" if it was announced already
	result         string // see shortResult
	entries        []any
}

func (h *Claim) written(end End) (w written, err error) {
	turn := h.Turn()
	ending, _ := h.split(end.Untaken)
	if w.start, err = h.unannounced(); err != nil {
		return w, err
	}
	outcome := session.Event{
		Type: session.EventTurnEnded, SessionID: turn.SessionID, Turn: turn.ID, Fence: turn.Fence, Messages: ids(ending),
		Status: end.Status, Reply: end.Reply, Error: text(end.Error), DurationMS: time.Since(turn.Started).Milliseconds(),
		Usage: end.Usage,
	}
	if w.outcome, err = marshal(outcome); err == nil {
		w.result, err = shortResult(outcome, w.outcome)
	}
	if err != nil {
		return w, fmt.Errorf("encode outcome: %w", err)
	}
	for _, e := range h.consumer.bounded(end.Entries) {
		entry, err := marshal(e)
		if err != nil {
			return w, fmt.Errorf("encode entry: %w", err)
		}
		w.entries = append(w.entries, entry)
	}
	return w, nil
}

// Retry gives the turn back to the head of the line after a failure. It may be
// taken again after wait. The error's text is kept with the message. The next
// attempt begins anew, as this one has: inherited are the entries that it was to
// go on from, of an earlier run that was cut off.
func (h *Claim) Retry(ctx context.Context, cause error, wait time.Duration, inherited ...session.Entry) error {
	partial, err := h.partial(inherited)
	if err != nil {
		return err
	}
	turn, why := h.Turn(), text(cause.Error())
	e := session.Event{Type: session.EventTurnRetry, Error: why, Attempt: turn.Attempt, RetryInMS: wait.Milliseconds()}
	return h.requeue(ctx, e, wait, fmt.Sprint(turn.Attempt), CutText(why, failureMost), partial)
}

// Requeue gives the turn back to the head of the line, to be taken again at
// once, and spends no attempt: it was cut off, for the reason that its resume
// mark then has. entries are what it has done so far.
func (h *Claim) Requeue(ctx context.Context, reason string, entries ...session.Entry) error {
	partial, err := h.partial(entries)
	if err != nil {
		return err
	}
	return h.requeue(ctx, session.Event{Type: session.EventTurnRequeued, Reason: reason}, 0, "", "", partial)
}

func (h *Claim) requeue(ctx context.Context, e session.Event, wait time.Duration, attempts, failure, partial string) error {
	c, turn := h.consumer.cfg, h.Turn()
	parts, _ := h.split(nil)
	e.Turn, e.Fence, e.Messages = turn.ID, turn.Fence, ids(parts)
	start, err := h.unannounced()
	if err != nil {
		return err
	}
	event, err := marshal(e)
	if err != nil {
		return fmt.Errorf("encode event: %w", err)
	}
	args := []any{h.prefix, wait.Milliseconds(), attempts, failure, event, h.consumer.events, start, partial, c.TranscriptTTL.Milliseconds(), e.Reason, c.StuckLimit}
	for _, p := range parts {
		args = append(args, p.taskID)
	}
	defer h.ends()()
	reply, err := h.move(ctx, "requeue", requeueScript, keysToProcessed, false, args...)
	if err != nil {
		return err
	}
	if reply.Text(0) == "asked" {
		return asked(reply.Text(1))
	}
	return h.released(ctx, reply)
}

// ErrUnannounced is wrapped by an error of Finish, Requeue or Retry whose move was
// carried out: the turn has ended and the sentinel is released. Only the workers could
// not be told of the messages that wait. PutBack does so; else reap or sweep find the
// session.
var ErrUnannounced = errors.New("the waiting messages were not announced")

// released ends the hold and, where more can be claimed, now or later, tells the
// workers.
func (h *Claim) released(ctx context.Context, reply script.Result) error {
	h.lease.End()
	at, now := reply.Int(1), reply.Int(2)
	if at == 0 {
		return nil
	}
	// The lease's own context has just ended.
	ctx = context.WithoutCancel(ctx)
	if err := Wake(ctx, h.consumer.rdb, now, h.consumer.cfg.Grace(), WakeUp{h.session, at}); err != nil {
		return fmt.Errorf("released %s: %w: %w", h.session, ErrUnannounced, err)
	}
	return nil
}

// How much of an error is kept, in bytes: with the turn's end, and in the task of a message
// that is tried again.
const (
	errorMost   = 16 << 10
	failureMost = 1 << 10
)

// text is s as protobuf's strings have to be: an agent's stderr may hold any
// bytes, and asynq could not read the task any more.
func text(s string) string { return strings.ToValidUTF8(CutText(s, errorMost), "\uFFFD") }

// CutText is the beginning of a text that has more than so many bytes.
func CutText(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + " [...]"
}

func flag(b bool) string {
	if b {
		return "1"
	}
	return "0"
}
