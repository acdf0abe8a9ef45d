package protocol

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"turnstile/internal/lease"
	"turnstile/internal/rediskey"
	"turnstile/internal/script"
	"turnstile/pkg/session"
)

// Turn is one run of an agent: what was taken, and under which fence.
type Turn struct {
	Session   string
	SessionID string // the transcript that this turn's entries go to
	ID        string
	Fence     int64

	// Taken is the message that began the turn, and Collected are those behind it
	// that the same turn takes.
	Taken
	Collected []Taken

	Attempt int   // from 1; failures raise it
	Entries int64 // entries written to this session id before, and once more for each undo, see docs/keys.md

	Reset     string        // "suspended": the session id is new for that reason
	Resume    string        // reason of the resume mark that the claim found, if any
	ResumeAge time.Duration // how old that mark is, by Redis' clock

	// Dropped are the task ids of messages that a full line has dropped, of which
	// this turn's agent is to be told: the newest, at most 50. Omitted is how many
	// older ones there were.
	Dropped []string
	Omitted int
	notes   notes

	// Started is the claim, by the worker's monotonic clock; StartedAt by Redis'.
	Started   time.Time
	StartedAt time.Time
}

// Taken is a message that became part of a turn.
type Taken struct {
	// Message is what the user said. Err tells why there is none: another
	// program's task in a session's queue.
	Message session.Message
	Err     error

	Redelivered int           // how often it came back without a failure: crashes and drains
	Age         time.Duration // since it was first seen

	taskID  string
	retried int
	plain   string // see part.task
}

// First reports whether the message was in no turn before: it is neither retried
// nor redelivered.
func (t Taken) First() bool { return t.retried == 0 && t.Redelivered == 0 }

// plainMost is how long a task is that is sent back whole with the end of its
// turn, which saves Redis from looking at it.
const plainMost = 16 << 10

// Messages are all that the turn was taken for.
func (t Turn) Messages() []Taken { return append([]Taken{t.Taken}, t.Collected...) }

// take reads a message as scripts return it.
func take(prefix string, r returned, limits session.Limits) Taken {
	t := Taken{taskID: r.text("id"), Age: max(r.ms("age"), 0), Redelivered: int(r.int("redelivered"))}
	msg := r.text("msg")
	if len(msg) <= plainMost && !r.is("unique") {
		t.plain = msg
	}
	task, err := ParseTaskMessage([]byte(msg))
	if err == nil {
		t.Message, err = task.Message(limits)
	}
	t.Message.ID = MessageID(prefix, t.taskID)
	t.Err, t.retried = err, task.retried
	return t
}

var errLostToAnother = fmt.Errorf("the sentinel is another's: %w", lease.ErrLost)

// Claim is a session that this worker owns: its sentinel, and the turn that runs
// under it. Every move checks token and fence in its script, and is safe to
// repeat. A move that finds the sentinel lost returns an error that wraps
// lease.ErrLost and changes nothing.
type Claim struct {
	consumer *Consumer
	session  string
	token    string
	prefix   string
	lease    *lease.Lease

	claimedBy time.Time // the sentinel has ended by then if nobody heard of the claim

	mu        sync.Mutex // guards what follows: Renewals look on while Finish goes on to the next turn
	keys      []string
	turn      Turn
	part      []part // the messages of the turn, in the order of taking
	announced bool   // that the turn has started
	steer     bool   // Promote found a message that is to be steered in
	seq       int
	asked     int // how many questions this turn has asked
	clock     clock
	ending    bool // a move that may release the sentinel is under way
	renewed   bool // the turn has a lease of asynq's, which a plain end leaves
	uncounted int  // messages that ended under this hold and are not in asynq's statistics
}

// part is one message of the running turn. task is asynq's TaskMessage, of one
// that a plain end of the turn may ack.
type part struct{ taskID, id, task string }

// Turn is the one that runs now.
func (h *Claim) Turn() Turn {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.turn
}

// TaskID is the asynq id of the turn's first message that is still a part of it; "": none
// is.
func (h *Claim) TaskID() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.part) == 0 {
		return ""
	}
	return h.part[0].taskID
}

// Session is the key of the session that is held.
func (h *Claim) Session() string { return h.session }

// Lease tells how long the hold may be trusted. Its context ends with
// lease.ErrLost.
func (h *Claim) Lease() *lease.Lease { return h.lease }

// Token is the sentinel's value: new for every claim.
func (h *Claim) Token() string { return h.token }

// Runs answers the fence of the turn that runs now, if it is that of an asynq
// task.
func (h *Claim) Runs(taskID string) (fence int64, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.turn.Fence, slices.ContainsFunc(h.part, func(p part) bool { return p.taskID == taskID })
}

// begin takes a turn from a script's result.
func (h *Claim) begin(sent time.Time, r returned) {
	t := Turn{
		Session: h.session, SessionID: r.text("sid"), Fence: r.int("fence"), Entries: r.int("entries"),
		Started: sent, StartedAt: time.UnixMilli(r.int("now")),
	}
	t.drops(r.text("dropped"))
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clock, h.uncounted = clock{r.int("now"), time.Now()}, 0
	h.run(t, r.records("messages", "message")...)
}

// run makes t the turn that runs, for messages as scripts return them. h.mu is
// held.
func (h *Claim) run(t Turn, messages ...returned) {
	h.seq, h.asked, h.announced, h.steer, h.renewed, h.part = 0, 0, false, false, false, h.part[:0:0]
	if transcript := rediskey.For(h.session).Transcript(t.SessionID); h.keys[transcriptKey] != transcript {
		h.keys = slices.Clone(h.keys) // a renewal or a batch under way reads the old ones
		h.keys[transcriptKey] = transcript
	}
	t.ID = h.prefix + strconv.FormatInt(t.Fence, 10)
	for i, message := range messages {
		m := take(h.prefix, message, h.consumer.cfg.Limits)
		h.part = append(h.part, part{m.taskID, m.Message.ID, m.plain})
		if i == 0 {
			t.Taken, t.Attempt = m, m.retried+1
		} else {
			t.Collected = append(t.Collected, m)
		}
	}
	h.turn = t
}

// clock is Redis' clock as an answer has told it: ms, and when that came.
type clock struct {
	ms int64
	at time.Time
}

// now may be late by the time that the answer took, and by what the clocks' rates
// differ.
func (c clock) now() int64 { return c.ms + time.Since(c.at).Milliseconds() }

// wasRenewed takes note of a renewal that was answered just now: of Redis' clock, ms,
// and of the turn that has a lease by it.
func (h *Claim) wasRenewed(ms, fence int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clock = clock{ms, time.Now()}
	h.renewed = h.renewed || fence == h.turn.Fence
}

// redisNow is Redis' clock in ms, as far as the hold knows it.
func (h *Claim) redisNow() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.clock.now()
}

// ends begins a move that may release the sentinel, and answers what ends the move. A
// renewal that is under way at the same time may find it released, which is no loss.
func (h *Claim) ends() func() {
	h.setEnding(true)
	return func() { h.setEnding(false) }
}

func (h *Claim) setEnding(ending bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ending = ending
}

// lost takes note that a renewal found the sentinel to be another's. False: the
// hold's own end explains it, and that move's answer counts.
func (h *Claim) lost(err error) bool {
	h.mu.Lock()
	ending := h.ending
	h.mu.Unlock()
	if !ending {
		h.lease.Lose(err)
	}
	return !ending
}

// move calls one of the owner's scripts for the present turn, and repeats it while the
// error may pass and the lease lasts. pairs are what the claim does not know by itself.
func (h *Claim) move(ctx context.Context, m *move, extend bool, pairs ...any) (returned, error) {
	h.mu.Lock()
	keys, fence := m.keys(h.keys), h.turn.Fence
	h.mu.Unlock()
	args := h.args(m, fence, pairs...)
	var r returned
	err := h.persist(ctx, func() error {
		sent := time.Now()
		result, err := h.consumer.moves.Run(ctx, m.Script, keys, args...)
		r = m.returned(result)
		if err == nil && extend && r.status() != "lost" {
			h.lease.Extend(sent, h.consumer.cfg.SentinelTTL)
		}
		return err
	})
	if err == nil && r.status() == "lost" {
		err = errLostToAnother
		h.lease.Lose(err)
	}
	if err != nil {
		return returned{}, fmt.Errorf("%s %s: %w", m.name, h.session, err)
	}
	return r, nil
}

// args are pairs, and what the script declares of what each claim knows.
func (h *Claim) args(m *move, fence int64, pairs ...any) []any {
	c := h.consumer
	for _, arg := range m.made().Args {
		switch arg.Name {
		case "task":
			pairs = append(pairs, arg.Name, rediskey.For(h.session).TaskPrefix())
		case "prefix":
			pairs = append(pairs, arg.Name, h.prefix)
		case "token":
			pairs = append(pairs, arg.Name, h.token)
		case "fence":
			pairs = append(pairs, arg.Name, fence)
		case "ttl":
			pairs = append(pairs, arg.Name, c.cfg.SentinelTTL.Milliseconds())
		case "events_cap":
			pairs = append(pairs, c.events...)
		case "longest":
			pairs = append(pairs, arg.Name, c.cfg.Limits.Task())
		case "stuck_limit":
			pairs = append(pairs, arg.Name, c.cfg.StuckLimit)
		case "turn_limits":
			pairs = append(pairs, arg.Name, c.cfg.turnLimits())
		case "retention":
			pairs = append(pairs, arg.Name, int64(c.cfg.Retention/time.Second))
		}
	}
	return m.args(pairs...)
}

// persist repeats call while its error may pass and the lease lasts.
func (h *Claim) persist(ctx context.Context, call func() error) error {
	err := script.Repeat(ctx, func() error {
		if err := h.lease.Held(); err != nil {
			return err
		}
		return call()
	})
	// A command that still waited when the lease ended says only that it was
	// cancelled.
	if lost := h.lease.Held(); errors.Is(err, context.Canceled) && errors.Is(lost, lease.ErrLost) {
		err = lost
	}
	return err
}
