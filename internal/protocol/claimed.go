package protocol

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"turnstile/internal/protocol/lease"
	"turnstile/internal/protocol/scripts"
	"turnstile/internal/redis/script"
)

var errLostToAnother = fmt.Errorf("another worker has the sentinel: %w", lease.ErrLost)

// Claim is a session that this worker owns: its sentinel, and the turn that runs under it. The
// script of every move checks token and fencing token, so a move may be repeated. A move of a lost
// claim changes nothing and returns an error that wraps lease.ErrLost.
type Claim struct {
	consumer *Consumer
	session  string
	token    string
	prefix   string
	agent    string // of all its turns; "" before the claim: not one that this worker runs
	lease    *lease.Lease

	hold string // the token of what the session holds of limits, "": nothing

	claimedBy time.Time // by then the sentinel has expired, if the claim's reply was lost

	mu         sync.Mutex // guards the following: renewals read it while Finish takes the next turn
	keys       scripts.Keys
	fastKeys   []string // KEYS of finish's fast path in this transcript; nil until it is taken
	turn       ClaimedTurn
	part       []part // the turn's messages, in the order in which they were taken
	startSent  bool   // Emit has appended the turn's start
	steer      bool   // a message waits to be steered in
	seq        int
	journaled  int           // calls that have written the turn's journal
	progressed bool          // see Progressed
	keeps      int           // items of the turn's output that stand if it is interrupted now
	questions  int           // how many the turn has asked
	patience   time.Duration // how long each waits for its decision; 0: as long as the turn
	clock      clock
	ending     bool // a move that may release the sentinel is under way
	renewed    bool // asynq has a lease of the turn's task, which finish's fast path does not remove
	uncounted  int  // messages that this claim ended and asynq's statistics do not include yet
}

// part is one message of the running turn. task is its asynq TaskMessage if finish's fast path may
// ack it, else "".
type part struct{ taskID, id, task string }

// Turn returns the running turn.
func (c *Claim) Turn() ClaimedTurn {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.turn
}

// TaskID returns the asynq ID of the first message that is still part of the turn, or "".
func (c *Claim) TaskID() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.part) == 0 {
		return ""
	}
	return c.part[0].taskID
}

// Session returns the session's key.
func (c *Claim) Session() string { return c.session }

// Lease returns the claim's lease. Its context ends with lease.ErrLost when the claim is lost.
func (c *Claim) Lease() *lease.Lease { return c.lease }

// Token returns the sentinel's value, which is new for every claim.
func (c *Claim) Token() string { return c.token }

// Runs reports whether the asynq task is part of the running turn, and returns the turn's fencing
// token.
func (c *Claim) Runs(taskID string) (fence int64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.turn.Fence, slices.ContainsFunc(c.part, func(p part) bool { return p.taskID == taskID })
}

// BeginAgain makes the running turn begin anew for its followers, because its agent does, although the journal
// has a run to go on from. Call it before the first event.
func (c *Claim) BeginAgain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.turn.Continues, c.turn.Keeps, c.keeps = "", 0, 0
}

// begin makes the turn of a claim's result.
func (c *Claim) begin(sent time.Time, r scripts.ClaimResult) {
	c.agent = cmp.Or(r.Agent, c.agent)
	t := ClaimedTurn{
		Session: c.session, TranscriptID: r.SID, Fence: r.Fence, Entries: r.Entries, Started: sent, StartedAt: time.UnixMilli(r.Now),
	}
	t.setDropped(r.Dropped)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clock, c.uncounted = clock{r.Now, time.Now()}, 0
	c.run(t, r.Messages...)
}

// run starts turn t, with messages in the form of the scripts' results. The caller holds c.mu.
func (c *Claim) run(t ClaimedTurn, messages ...scripts.Message) {
	c.seq, c.journaled, c.keeps, c.questions, c.startSent, c.steer, c.renewed, c.progressed, c.part = 0, 0, 0, 0, false, false, false, false, c.part[:0:0]
	if t.TranscriptID != c.turn.TranscriptID {
		c.keys, c.fastKeys = c.keys.WithTranscript(t.TranscriptID), nil
	}
	t.Agent, t.ID = c.agent, c.prefix+strconv.FormatInt(t.Fence, 10)
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

// wasRenewed records a renewal that has just returned: Redis' clock in ms, and the fencing token of
// the turn that it renewed.
func (c *Claim) wasRenewed(ms, fence int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clock = clock{ms, time.Now()}
	c.renewed = c.renewed || fence == c.turn.Fence
}

// redisNow returns Redis' clock in ms, as far as the claim knows it.
func (c *Claim) redisNow() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.clock.now()
}

// ends begins a move that may release the sentinel, and returns the function to call after it. A
// renewal at the same time may find the sentinel released, which is no loss.
func (c *Claim) ends() func() {
	c.setEnding(true)
	return func() { c.setEnding(false) }
}

func (c *Claim) setEnding(ending bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ending = ending
}

// lost handles a renewal that found another sentinel, and reports whether the claim is lost. While
// a move that may release the sentinel is under way, it is not: that move's result counts.
func (c *Claim) lost(err error) bool {
	c.mu.Lock()
	ending := c.ending
	c.mu.Unlock()
	if !ending {
		c.lease.Lose(err)
	}
	return !ending
}

// owner returns the session's keys, and the proof that this claim owns it.
func (c *Claim) owner() (scripts.Keys, scripts.Owner) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.keys, scripts.Owner{Token: c.token, Fence: c.turn.Fence}
}

// own runs one of the owner's scripts for the running turn. It repeats the script while the error
// may pass and the lease lasts.
func own[A scripts.Args, R any](ctx context.Context, c *Claim, extend bool, m scripts.Move[A, R], keys []string, args A) (r R, err error) {
	call := m.Call(keys, args)
	lost := false
	err = c.persist(ctx, func() (err error) {
		sent := time.Now()
		call.Result, err = c.consumer.moves.Run(ctx, m.Script, call.Keys, call.Args...)
		lost = scripts.Status(call.Result.Text(0)) == scripts.Lost
		if err == nil && extend && !lost {
			c.lease.Extend(sent, c.consumer.cfg.SentinelTTL)
		}
		return err
	})
	if err == nil && lost {
		err = errLostToAnother
		c.lease.Lose(err)
	}
	if err != nil {
		return r, fmt.Errorf("%s %s: %w", m.Text().Name, c.session, err)
	}
	return m.Result(call), nil
}

// persist repeats call while its error may pass and the lease lasts.
func (c *Claim) persist(ctx context.Context, call func() error) error {
	err := script.Repeat(ctx, func() error {
		if err := c.lease.Held(); err != nil {
			return err
		}
		return call()
	})
	// A command that still waited when the lease ended returns only context.Canceled.
	if lost := c.lease.Held(); errors.Is(err, context.Canceled) && errors.Is(lost, lease.ErrLost) {
		err = lost
	}
	return err
}

// clock is Redis' clock in ms in a result, and when the result arrived.
type clock struct {
	ms int64
	at time.Time
}

// now may lag by the time that the result took to arrive, and by the drift of the two clocks.
func (c clock) now() int64 { return c.ms + time.Since(c.at).Milliseconds() }
