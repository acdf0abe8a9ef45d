package protocol

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"turnstile/internal/rediskey"
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
	if h.mayBeFast(end) {
		if done, more, err := h.finishFast(ctx, end, w); done || err != nil {
			return more, err
		}
	}
	last, sent := h.Turn(), time.Now()
	r, err := h.move(ctx, finishMove, false, h.finishRest(end, w)...)
	if err != nil {
		return false, err
	}
	if r.status() == "released" {
		return false, h.released(ctx, r)
	}
	h.begin(sent, r)
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

// finishPairs are what both paths of finish get of the worker.
func (c *Consumer) finishPairs() []any {
	return append([]any{
		"transcript_ttl", c.cfg.TranscriptTTL.Milliseconds(),
		"phase", c.phase(), "longest", c.cfg.Limits.Task(),
	}, c.events...)
}

// finishRest is what the full path gets beside what each claim knows.
func (h *Claim) finishRest(end End, w written) []any {
	c, turn, why := h.consumer, h.Turn(), ""
	ending, untaken := h.split(end.Untaken)
	if end.archives() {
		why = cmp.Or(text(end.Error), string(end.Status))
	}
	return []any{
		"transcript_ttl", c.cfg.TranscriptTTL.Milliseconds(),
		"phase", c.phase(), "outcome", w.outcome, "start", w.start, "bounds", w.bounds, "release", end.Release, "why", why, "well", end.Status == session.StatusDone,
		"sid", turn.SessionID, "noted", len(turn.Dropped) > 0, "told_ids", turn.told(end.Told), "omitted", turn.notes.omitted,
		"short_outcome", w.result, "ending", taskIDs(ending), "untaken", taskIDs(untaken), "entries", w.entries,
	}
}

// written is what a turn's end leaves, as JSON.
type written struct {
	outcome, start string // start is "" if it was announced already
	result         string // see shortResult
	entries        []string
	bounds         string // of the transcript, "" if they need no look now
}

// A transcript is bounded when a turn has written boundedBytes to it, with every
// boundedEntries that were written to it, and with every turn once it has had more entries
// than it keeps.
const (
	boundedBytes   = 64 << 10
	boundedEntries = 32
)

// bounds is the scripts' argument of that name, for a turn whose conversation had some
// entries before.
func (c *Consumer) bounds(before int64, entries []string) string {
	size, count := 0, int64(len(entries))
	for _, e := range entries {
		size += len(e)
	}
	total := before + count
	if size < boundedBytes && total%boundedEntries >= count {
		if total <= int64(c.cfg.TranscriptCap) {
			return ""
		}
		size = 0
	}
	return fmt.Sprint(c.cfg.TranscriptCap, c.cfg.TranscriptBytes, size)
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
	w.bounds = h.consumer.bounds(turn.Entries, w.entries)
	return w, nil
}

// ErrUnannounced is wrapped by an error of Finish, Requeue or Retry whose move was
// carried out: the turn has ended and the sentinel is released. Only the workers could
// not be told of the messages that wait. PutBack does so; else reap or sweep find the
// session.
var ErrUnannounced = errors.New("the waiting messages were not announced")

// released ends the hold and, where more can be claimed, now or later, tells the
// workers.
func (h *Claim) released(ctx context.Context, r returned) error {
	h.lease.End()
	at, now := r.int("at"), r.int("now")
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

// fastEntries is how many entries the fast path has at most: Lua hands no
// more than some thousands to a command.
const fastEntries = 1000

// mayBeFast reports whether the worker knows of nothing about a turn that its
// fast path does not do, see lua/finish.lua.
func (h *Claim) mayBeFast(end End) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return end.Status == session.StatusDone && len(h.turn.Dropped) == 0 && h.consumer.cfg.Retention >= time.Second &&
		!h.renewed && len(h.part) == 1 && h.part[0].task != "" && len(end.Entries) <= fastEntries
}

// finishFast ends a turn of which mayBeFast is true. done is false if that was
// not so after all.
func (h *Claim) finishFast(ctx context.Context, end End, w written) (done, more bool, err error) {
	last, sent, now := h.Turn(), time.Now(), h.redisNow()
	h.mu.Lock()
	p, keys, uncounted := h.part[0], h.keys, h.uncounted+1
	h.mu.Unlock()
	next := Turn{
		Session: h.session, SessionID: last.SessionID, Fence: max(now, last.Fence+1), Entries: last.Entries + int64(len(end.Entries)),
		Started: sent, StartedAt: time.UnixMilli(now),
	}
	following := any(next.Fence)
	if end.Release {
		following = ""
	}
	seconds, retention := now/1000, int64(h.consumer.cfg.Retention/time.Second)
	r, err := h.endFast(ctx, &script.Call{
		Script: finishFast.Script, Shared: h.consumer.finishShared, Keys: finishFast.keys(keys),
		Args: finishFast.each(
			"task", rediskey.For(h.session).TaskPrefix(), "token", h.token, "fence", last.Fence, "outcome", w.outcome, "start", w.start, "bounds", w.bounds,
			"id", p.taskID, "msg", p.task+completion(retention, seconds), "following_fence", following, "now", now,
			"score", seconds+retention, "total", next.Entries, "done", uncounted, "entries", w.entries,
		),
	})
	if err != nil {
		return false, false, fmt.Errorf("finish %s: %w", h.session, err)
	}
	switch r.status() {
	case "released":
		h.lease.End()
		return true, false, nil
	case "following":
		h.mu.Lock()
		defer h.mu.Unlock()
		h.uncounted = uncounted % countEvery
		h.run(next, r)
		return true, true, nil
	}
	return false, false, nil
}

// endFast sends the fast path, together with others', until there is a reply.
func (h *Claim) endFast(ctx context.Context, call *script.Call) (returned, error) {
	err := h.persist(ctx, func() error {
		h.consumer.moves.Do(ctx, call)
		return call.Err
	})
	return finishFast.returned(call.Result), err
}

// countEvery is how many ended messages are counted at once in asynq's statistics,
// as lua/finish.lua does.
const countEvery = 10
