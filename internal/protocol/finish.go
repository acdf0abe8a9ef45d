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
func (c *Claim) Finish(ctx context.Context, end End) (more bool, err error) {
	defer c.ends()() // also between the two scripts: the first may have released it, unheard
	w, err := c.written(end)
	if err != nil {
		return false, err
	}
	if c.mayBeFast(end) {
		if done, more, err := c.finishFast(ctx, end, w); done || err != nil {
			return more, err
		}
	}
	last, sent := c.Turn(), time.Now()
	r, err := c.move(ctx, finishMove, false, c.finishRest(end, w)...)
	if err != nil {
		return false, err
	}
	if r.status() == "released" {
		return false, c.released(ctx, r)
	}
	c.begin(sent, r)
	if end.Status != session.StatusDone {
		c.keepMark(last)
	}
	return true, nil
}

// keep tells the next turn of the resume mark that the last one's claim has found.
// That was not finished, so it is still there, as a claim would see.
func (c *Claim) keepMark(last Turn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if last.Resume != "" && last.SessionID == c.turn.SessionID {
		c.turn.Resume, c.turn.ResumeAge = last.Resume, last.ResumeAge+c.turn.Started.Sub(last.Started)
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
func (c *Claim) finishRest(end End, w written) []any {
	consumer, turn, why := c.consumer, c.Turn(), ""
	ending, untaken := c.split(end.Untaken)
	if end.archives() {
		why = cmp.Or(text(end.Error), string(end.Status))
	}
	return []any{
		"transcript_ttl", consumer.cfg.TranscriptTTL.Milliseconds(),
		"phase", consumer.phase(), "outcome", w.outcome, "start", w.start, "bounds", w.bounds, "release", end.Release, "why", why, "well", end.Status == session.StatusDone,
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

func (c *Claim) written(end End) (w written, err error) {
	turn := c.Turn()
	ending, _ := c.split(end.Untaken)
	if w.start, err = c.unsentStart(); err != nil {
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
	for _, e := range c.consumer.bounded(end.Entries) {
		entry, err := marshal(e)
		if err != nil {
			return w, fmt.Errorf("encode entry: %w", err)
		}
		w.entries = append(w.entries, entry)
	}
	w.bounds = c.consumer.bounds(turn.Entries, w.entries)
	return w, nil
}

// ErrUnannounced is wrapped by an error of Finish, Requeue or Retry whose move was
// carried out: the turn has ended and the sentinel is released. Only the workers could
// not be told of the messages that wait. PutBack does so; else reap or sweep find the
// session.
var ErrNotWoken = errors.New("the waiting messages were not announced")

// released ends the hold and, where more can be claimed, now or later, tells the
// workers.
func (c *Claim) released(ctx context.Context, r returned) error {
	c.lease.End()
	at, now := r.int("at"), r.int("now")
	if at == 0 {
		return nil
	}
	// The lease's own context has just ended.
	ctx = context.WithoutCancel(ctx)
	if err := Wake(ctx, c.consumer.rdb, now, c.consumer.cfg.Grace(), WakeUp{c.session, at}); err != nil {
		return fmt.Errorf("released %s: %w: %w", c.session, ErrNotWoken, err)
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
func (c *Claim) mayBeFast(end End) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return end.Status == session.StatusDone && len(c.turn.Dropped) == 0 && c.consumer.cfg.Retention >= time.Second &&
		!c.renewed && len(c.part) == 1 && c.part[0].task != "" && len(end.Entries) <= fastEntries
}

// finishFast ends a turn of which mayBeFast is true. done is false if that was
// not so after all.
func (c *Claim) finishFast(ctx context.Context, end End, w written) (done, more bool, err error) {
	last, sent, now := c.Turn(), time.Now(), c.redisNow()
	c.mu.Lock()
	p, keys, uncounted := c.part[0], c.keys, c.uncounted+1
	c.mu.Unlock()
	next := Turn{
		Session: c.session, SessionID: last.SessionID, Fence: max(now, last.Fence+1), Entries: last.Entries + int64(len(end.Entries)),
		Started: sent, StartedAt: time.UnixMilli(now),
	}
	following := any(next.Fence)
	if end.Release {
		following = ""
	}
	seconds, retention := now/1000, int64(c.consumer.cfg.Retention/time.Second)
	r, err := c.endFast(ctx, &script.Call{
		Script: finishFast.Script, Shared: c.consumer.finishShared, Keys: finishFast.keys(keys),
		Args: finishFast.each(
			"task", rediskey.For(c.session).TaskPrefix(), "token", c.token, "fence", last.Fence, "outcome", w.outcome, "start", w.start, "bounds", w.bounds,
			"id", p.taskID, "msg", p.task+completion(retention, seconds), "following_fence", following, "now", now,
			"score", seconds+retention, "total", next.Entries, "done", uncounted, "entries", w.entries,
		),
	})
	if err != nil {
		return false, false, fmt.Errorf("finish %s: %w", c.session, err)
	}
	switch r.status() {
	case "released":
		c.lease.End()
		return true, false, nil
	case "following":
		c.mu.Lock()
		defer c.mu.Unlock()
		c.uncounted = uncounted % countEvery
		c.run(next, r)
		return true, true, nil
	}
	return false, false, nil
}

// endFast sends the fast path, together with others', until there is a reply.
func (c *Claim) endFast(ctx context.Context, call *script.Call) (returned, error) {
	err := c.persist(ctx, func() error {
		c.consumer.moves.Do(ctx, call)
		return call.Err
	})
	return finishFast.returned(call.Result), err
}

// countEvery is how many ended messages are counted at once in asynq's statistics,
// as lua/finish.lua does.
const countEvery = 10
