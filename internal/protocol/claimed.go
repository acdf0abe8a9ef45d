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
)

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
	startSent bool   // that the turn has started
	steer     bool   // Promote found a message that is to be steered in
	seq       int
	questions int // how many questions this turn has asked
	clock     clock
	ending    bool // a move that may release the sentinel is under way
	renewed   bool // the turn has a lease of asynq's, which a plain end leaves
	uncounted int  // messages that ended under this hold and are not in asynq's statistics
}

// part is one message of the running turn. task is asynq's TaskMessage, of one
// that a plain end of the turn may ack.
type part struct{ taskID, id, task string }

// Turn is the one that runs now.
func (c *Claim) Turn() Turn {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.turn
}

// TaskID is the asynq id of the turn's first message that is still a part of it; "": none
// is.
func (c *Claim) TaskID() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.part) == 0 {
		return ""
	}
	return c.part[0].taskID
}

// Session is the key of the session that is held.
func (c *Claim) Session() string { return c.session }

// Lease tells how long the hold may be trusted. Its context ends with
// lease.ErrLost.
func (c *Claim) Lease() *lease.Lease { return c.lease }

// Token is the sentinel's value: new for every claim.
func (c *Claim) Token() string { return c.token }

// Runs answers the fence of the turn that runs now, if it is that of an asynq
// task.
func (c *Claim) Runs(taskID string) (fence int64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.turn.Fence, slices.ContainsFunc(c.part, func(p part) bool { return p.taskID == taskID })
}

// begin takes a turn from a script's result.
func (c *Claim) begin(sent time.Time, r returned) {
	t := Turn{
		Session: c.session, SessionID: r.text("sid"), Fence: r.int("fence"), Entries: r.int("entries"),
		Started: sent, StartedAt: time.UnixMilli(r.int("now")),
	}
	t.setDropped(r.text("dropped"))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clock, c.uncounted = clock{r.int("now"), time.Now()}, 0
	c.run(t, r.records("messages", "message")...)
}

// run makes t the turn that runs, for messages as scripts return them. h.mu is
// held.
func (c *Claim) run(t Turn, messages ...returned) {
	c.seq, c.questions, c.startSent, c.steer, c.renewed, c.part = 0, 0, false, false, false, c.part[:0:0]
	if transcript := rediskey.For(c.session).Transcript(t.SessionID); c.keys[transcriptKey] != transcript {
		c.keys = slices.Clone(c.keys) // a renewal or a batch under way reads the old ones
		c.keys[transcriptKey] = transcript
	}
	t.ID = c.prefix + strconv.FormatInt(t.Fence, 10)
	for i, message := range messages {
		m := take(c.prefix, message, c.consumer.cfg.Limits)
		c.part = append(c.part, part{m.taskID, m.Message.ID, m.fastTask})
		if i == 0 {
			t.Taken, t.Attempt = m, m.retried+1
		} else {
			t.Collected = append(t.Collected, m)
		}
	}
	c.turn = t
}

// wasRenewed takes note of a renewal that was answered just now: of Redis' clock, ms,
// and of the turn that has a lease by it.
func (c *Claim) wasRenewed(ms, fence int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clock = clock{ms, time.Now()}
	c.renewed = c.renewed || fence == c.turn.Fence
}

// redisNow is Redis' clock in ms, as far as the hold knows it.
func (c *Claim) redisNow() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.clock.now()
}

// ends begins a move that may release the sentinel, and answers what ends the move. A
// renewal that is under way at the same time may find it released, which is no loss.
func (c *Claim) ends() func() {
	c.setEnding(true)
	return func() { c.setEnding(false) }
}

func (c *Claim) setEnding(ending bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ending = ending
}

// lost takes note that a renewal found the sentinel to be another's. False: the
// hold's own end explains it, and that move's answer counts.
func (c *Claim) lost(err error) bool {
	c.mu.Lock()
	ending := c.ending
	c.mu.Unlock()
	if !ending {
		c.lease.Lose(err)
	}
	return !ending
}

// move calls one of the owner's scripts for the present turn, and repeats it while the
// error may pass and the lease lasts. pairs are what the claim does not know by itself.
func (c *Claim) move(ctx context.Context, m *move, extend bool, pairs ...any) (returned, error) {
	c.mu.Lock()
	keys, fence := m.keys(c.keys), c.turn.Fence
	c.mu.Unlock()
	args := c.args(m, fence, pairs...)
	var r returned
	err := c.persist(ctx, func() error {
		sent := time.Now()
		result, err := c.consumer.moves.Run(ctx, m.Script, keys, args...)
		r = m.returned(result)
		if err == nil && extend && r.status() != "lost" {
			c.lease.Extend(sent, c.consumer.cfg.SentinelTTL)
		}
		return err
	})
	if err == nil && r.status() == "lost" {
		err = errLostToAnother
		c.lease.Lose(err)
	}
	if err != nil {
		return returned{}, fmt.Errorf("%s %s: %w", m.name, c.session, err)
	}
	return r, nil
}

// args are pairs, and what the script declares of what each claim knows.
func (c *Claim) args(m *move, fence int64, pairs ...any) []any {
	consumer := c.consumer
	for _, arg := range m.made().Args {
		switch arg.Name {
		case "task":
			pairs = append(pairs, arg.Name, rediskey.For(c.session).TaskPrefix())
		case "prefix":
			pairs = append(pairs, arg.Name, c.prefix)
		case "token":
			pairs = append(pairs, arg.Name, c.token)
		case "fence":
			pairs = append(pairs, arg.Name, fence)
		case "ttl":
			pairs = append(pairs, arg.Name, consumer.cfg.SentinelTTL.Milliseconds())
		case "events_cap":
			pairs = append(pairs, consumer.events...)
		case "longest":
			pairs = append(pairs, arg.Name, consumer.cfg.Limits.Task())
		case "stuck_limit":
			pairs = append(pairs, arg.Name, consumer.cfg.StuckLimit)
		case "turn_limits":
			pairs = append(pairs, arg.Name, consumer.cfg.turnLimits())
		case "retention":
			pairs = append(pairs, arg.Name, int64(consumer.cfg.Retention/time.Second))
		}
	}
	return m.args(pairs...)
}

// persist repeats call while its error may pass and the lease lasts.
func (c *Claim) persist(ctx context.Context, call func() error) error {
	err := script.Repeat(ctx, func() error {
		if err := c.lease.Held(); err != nil {
			return err
		}
		return call()
	})
	// A command that still waited when the lease ended says only that it was
	// cancelled.
	if lost := c.lease.Held(); errors.Is(err, context.Canceled) && errors.Is(lost, lease.ErrLost) {
		err = lost
	}
	return err
}
