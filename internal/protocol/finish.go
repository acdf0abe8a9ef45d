package protocol

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"turnstile/internal/protocol/index"
	"turnstile/internal/protocol/scripts"
	"turnstile/pkg/session"
)

// End is how a turn ended.
type End struct {
	Status  session.Status
	Reply   string
	Error   string          // why the turn did not succeed, for users
	Code    string          // of a failure
	Detail  string          // why, for operators; may be empty
	Entries []session.Entry // for the transcript; the last one of a turn that failed or was stopped gets Ended
	Usage   *session.Usage  // of the turn; nil if unknown

	// Rollback undoes the turn: its messages are archived, although its status is
	// StatusInterrupted.
	Rollback bool

	// Untaken are the IDs of messages that Steer returned and the agent did not take. They go back
	// to their places in the queue, or are archived if a /stop came first.
	Untaken []string

	// Told is how many of Turn.Dropped the agent's note named. If it is not 0, the note also
	// counted Turn.Omitted.
	Told int

	// Release ends ownership even if more messages wait.
	Release bool
}

// archives reports whether the turn's messages become dead letters.
func (e End) archives() bool {
	return e.Status != session.StatusDone && (e.Status != session.StatusInterrupted || e.Rollback)
}

// Finish ends the turn in one script: it acks or archives the messages, appends to the transcript,
// publishes the reply and counts. The same script either takes the next message under the same
// sentinel with a new fencing token (more is true, and Turn returns the new turn), or ends the
// claim.
func (c *Claim) Finish(ctx context.Context, end End) (more bool, err error) {
	defer c.consumer.readers.Wrote(c.session)
	defer c.ends()() // for both scripts: the first may have released the sentinel before its reply was lost
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
	k, o := c.owner()
	r, err := own(ctx, c, false, scripts.Finish, scripts.FinishKeys(k), c.finishArgs(o, end, w))
	if err != nil {
		return false, err
	}
	if end.archives() {
		_ = index.NeedAttention(context.WithoutCancel(ctx), c.consumer.rdb, r.Now, c.session)
	}
	if r.Status == scripts.Released {
		return false, c.released(ctx, r.Now, r.At)
	}
	c.begin(sent, scripts.ClaimResult{Now: r.Now, Fence: r.Fence, SID: r.SID, Entries: r.Entries, Dropped: r.Dropped, Messages: r.Messages})
	if end.Status != session.StatusDone {
		c.inheritMark(last)
	}
	return true, nil
}

// inheritMark gives the next turn the resume mark that the last turn's claim found. That turn did
// not finish, so the mark is still stored, and a new claim would find it.
func (c *Claim) inheritMark(last ClaimedTurn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if last.Resume != "" && last.TranscriptID == c.turn.TranscriptID {
		c.turn.Resume = last.Resume
	}
}

// The most bytes of the results of one turn's messages together. Beyond resultsNamed only the first
// result names all messages, and beyond resultsReplied only the first has the reply.
const (
	resultsNamed   = 256 << 10
	resultsReplied = 4 << 20
)

// shortResult returns the result of the turn's messages after the first one. "" means the turn's
// end as it was published. Otherwise it leaves out the messages' names, and if it is still too
// long, the reply.
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

// finishSettings are the worker's arguments of both paths of finish.
func (c *Consumer) finishSettings() scripts.FinishFastShared {
	return scripts.FinishFastShared{
		Stream: c.stream, TranscriptTTL: c.cfg.TranscriptTTL.Milliseconds(), Phase: c.phase(), Longest: TaskMost(c.cfg.Limits), Warm: c.cfg.Warm,
	}
}

// finishArgs are the arguments of the full path.
func (c *Claim) finishArgs(o scripts.Owner, end End, w written) scripts.FinishArgs {
	cfg, s, turn, why := c.consumer.cfg, c.consumer.finishSettings(), c.Turn(), ""
	ending, untaken := c.split(end.Untaken)
	if end.archives() {
		why = cmp.Or(text(end.Detail), text(end.Error), string(end.Status))
	}
	return scripts.FinishArgs{
		Stream: s.Stream, TranscriptTTL: s.TranscriptTTL, Phase: s.Phase, Longest: s.Longest, Warm: s.Warm,
		Prefixes: scripts.PrefixesOf(c.session), Owner: o, TTL: c.consumer.ttl(), TurnLimits: cfg.turnLimits(), Retention: cfg.retention(),
		Outcome: w.outcome, Start: w.start, Bounds: w.bounds, Release: end.Release, Why: why, Well: end.Status == session.StatusDone,
		SID: turn.TranscriptID, Noted: len(turn.Dropped) > 0, ToldIDs: int64(turn.reported(end.Told)), Omitted: turn.notes.omitted,
		ShortOutcome: w.result, Ending: taskIDs(ending), Untaken: taskIDs(untaken), Entries: w.entries,
	}
}

// written are the JSON texts that a turn's end stores.
type written struct {
	outcome, start string // start is "" if it was sent before
	result         string // see shortResult
	entries        []string
	bounds         string // of the transcript; "": do not bound it now
}

// A transcript is bounded after a turn that wrote boundedBytes to it, after every boundedEntries
// entries, and after every turn once more entries were written than are kept.
const (
	boundedBytes   = 64 << 10
	boundedEntries = 32
)

// bounds is the scripts' argument of that name.
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
		Type: session.EventTurnEnded, TranscriptID: turn.TranscriptID, Turn: turn.ID, Fence: turn.Fence, Messages: ids(ending),
		Status: end.Status, Reply: end.Reply, Error: text(end.Error), Code: end.Code, Detail: text(end.Detail), Duration: session.Millis(time.Since(turn.Started).Truncate(time.Millisecond)),
		Usage: end.Usage, Continues: turn.Continues,
	}
	if w.outcome, err = marshal(outcome); err == nil {
		w.result, err = shortResult(outcome, w.outcome)
	}
	if err != nil {
		return w, fmt.Errorf("encode outcome: %w", err)
	}
	for i, e := range c.consumer.bounded(end.Entries) {
		if i == len(end.Entries)-1 && (end.Status == session.StatusFailed || end.Status == session.StatusStopped) {
			e.Ended = &session.Ended{Status: end.Status, Why: CutText(outcome.Error, failureMost)}
		}
		entry, err := marshal(e)
		if err != nil {
			return w, fmt.Errorf("encode entry: %w", err)
		}
		w.entries = append(w.entries, entry)
	}
	w.bounds = c.consumer.bounds(turn.Entries, w.entries)
	return w, nil
}

// NotWokenError has sessions that nobody owns, have waiting messages, and could not be put into the ready or the due
// index: a move was carried out and released one, or they were popped and not claimed. PutBack wakes them; otherwise
// reap or the sweep finds them.
type NotWokenError struct {
	Sessions []string
	Err      error
}

func (e *NotWokenError) Error() string {
	some := e.Sessions[:min(len(e.Sessions), 3)]
	return fmt.Sprintf("not woken for waiting messages: %s (%d in all): %v", strings.Join(some, ", "), len(e.Sessions), e.Err)
}

func (e *NotWokenError) Unwrap() error { return e.Err }

// released ends the claim, and wakes the session if it can be claimed again, now or later.
func (c *Claim) released(ctx context.Context, now, at int64) error {
	c.lease.End()
	if at == 0 {
		return nil
	}
	// The lease's own context has just ended.
	ctx = context.WithoutCancel(ctx)
	if err := index.Wake(ctx, c.consumer.rdb, now, c.consumer.cfg.Grace(), index.WakeUp{Session: c.session, At: at}); err != nil {
		return &NotWokenError{[]string{c.session}, err}
	}
	return nil
}

// How many bytes of an error are stored: with the turn's end, and in the task of a retried message or an entry.
const (
	errorMost   = 16 << 10
	failureMost = 1 << 10
)

// text returns s as valid UTF-8, which protobuf's strings must be: an agent's stderr may hold any
// bytes, and asynq could not read the task any more.
func text(s string) string { return strings.ToValidUTF8(CutText(s, errorMost), "\uFFFD") }

// CutText returns the first most bytes of a longer text, and marks the cut.
func CutText(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + " [...]"
}

// fastEntries is the most entries of the fast path: Lua can pass only some thousands to one
// command.
const fastEntries = 1000

// mayBeFast reports whether the fast path can end the turn, as far as the worker knows. See
// lua/finish.lua.
func (c *Claim) mayBeFast(end End) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return end.Status == session.StatusDone && len(c.turn.Dropped) == 0 && c.consumer.cfg.Retention >= time.Second &&
		!c.renewed && len(c.part) == 1 && c.part[0].task != "" && len(end.Entries) <= fastEntries
}

// finishFast ends a turn for which mayBeFast is true. done is false if the session needs the full
// path after all.
func (c *Claim) finishFast(ctx context.Context, end End, w written) (done, more bool, err error) {
	last, sent, now := c.Turn(), time.Now(), c.redisNow()
	c.mu.Lock()
	p, uncounted := c.part[0], c.uncounted+1
	if c.fastKeys == nil {
		c.fastKeys = scripts.FinishFastKeys(c.keys)
	}
	keys, task := c.fastKeys, c.keys.TaskPrefix()
	c.mu.Unlock()
	next := ClaimedTurn{
		Session: c.session, TranscriptID: last.TranscriptID, Fence: max(now, last.Fence+1), Entries: last.Entries + int64(len(end.Entries)),
		Started: sent, StartedAt: time.UnixMilli(now),
	}
	following := ""
	if !end.Release {
		following = strconv.FormatInt(next.Fence, 10)
	}
	seconds, retention := now/1000, c.consumer.cfg.retention()
	call := scripts.FinishFast.Call(keys, scripts.FinishFastArgs{
		Task: task, Owner: scripts.Owner{Token: c.token, Fence: last.Fence}, Outcome: w.outcome, Start: w.start, Bounds: w.bounds,
		ID: p.taskID, Msg: p.task + completion(retention, seconds), FollowingFence: following, Now: now,
		Score: seconds + retention, Total: next.Entries, Done: int64(uncounted), Entries: w.entries,
	})
	call.Shared = c.consumer.finishShared
	err = c.persist(ctx, func() error {
		c.consumer.moves.Do(ctx, call)
		return call.Err
	})
	if err != nil {
		return false, false, fmt.Errorf("finish %s: %w", c.session, err)
	}
	switch r := scripts.FinishFast.Result(call); r.Status {
	case scripts.Released:
		c.lease.End()
		return true, false, nil
	case scripts.Following:
		c.mu.Lock()
		defer c.mu.Unlock()
		c.uncounted = uncounted % countEvery
		c.run(next, scripts.Message{ID: r.ID, Msg: r.Msg, Age: r.Age, Redelivered: r.Redelivered, Unique: r.Unique})
		return true, true, nil
	}
	return false, false, nil
}

// countEvery is how many ended messages are counted at once in asynq's statistics, as
// lua/finish.lua does it.
const countEvery = 10
