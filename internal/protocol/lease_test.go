package protocol_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/lease"
	sq "turnstile/internal/protocol"
	"turnstile/internal/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// An owner that trusts its lease longer than the sentinel lives may run beside
// the next owner. Each move that extends the one has to extend the other.
func TestLeaseEndsBeforeTheSentinel(t *testing.T) {
	t.Parallel()
	moves := map[string]func(b *bench, h *sq.Claim) error{
		"promote": func(b *bench, h *sq.Claim) error { return h.Promote(b.ctx) },
		"renew":   func(b *bench, h *sq.Claim) error { return b.c.Renew(b.ctx, []*sq.Claim{h})[0].Err },
		"emit": func(b *bench, h *sq.Claim) error {
			return h.Emit(b.ctx, []session.Event{{Type: session.EventNotice, Text: "hi"}})
		},
		"finish": func(b *bench, h *sq.Claim) error {
			if !b.finish(h) {
				return errors.New("there was no next turn")
			}
			return nil
		},
	}
	for name, move := range moves {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, h := ageing(t)
			expect.OK(t, move(b, h))
			trusted(b, h)
		})
		if name == "renew" {
			continue // is not repeated by itself
		}
		t.Run(name+" again after a lost reply", func(t *testing.T) {
			t.Parallel()
			b, h := ageing(t)
			b.rdb.AddHook(&slowLoss{script: name, passed: func() { b.left(700 * time.Millisecond) }})
			if err := move(b, h); err != nil && !errors.Is(err, lease.ErrLost) {
				t.Fatal(err)
			}
			trusted(b, h)
		})
	}
}

// A claim of which the reply was lost is answered again, by a script that comes later
// than the one which has set the sentinel.
func TestLeaseOfAClaimThatWasRepeated(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.say("a")
	var before time.Time
	b.rdb.AddHook(between(called("claim"), func() { before = time.Now() }))
	h := b.claim()
	if over := h.Lease().Deadline().Sub(before.Add(b.c.Config().SentinelTTL * 9 / 10)); over > 0 {
		t.Errorf("the lease is trusted for %s longer than it may be", over)
	}
}

// A renewal finds that the session was released, while the worker does not know yet,
// since the answer was lost: that is no loss.
func TestRenewWhileAReleaseIsRepeated(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for i := range 30 {
		b.say(strconv.Itoa(i))
		h := b.claim()
		faults := &redistest.Faults{}
		b.rdb.AddHook(faults)
		faults.LoseReply(called("finish"), 1)
		var renewals sync.WaitGroup
		over, end := context.WithCancel(b.ctx)
		for range 3 {
			renewals.Go(func() {
				for over.Err() == nil {
					b.c.Renew(b.ctx, []*sq.Claim{h})
				}
			})
		}
		_, err := h.Finish(b.ctx, b.done(h))
		end()
		renewals.Wait()
		faults.Clear()
		expect.OK(t, err)
	}
}

// ageing is a hold of one second some of which has passed.
func ageing(t *testing.T) (*bench, *sq.Claim) {
	t.Helper()
	b := newBench(t, func(c *sq.Config) { c.SentinelTTL = time.Second })
	b.sayAll("a", "b")
	h := b.claim()
	b.left(700 * time.Millisecond)
	return b, h
}

// left waits until the sentinel has no more than d to live.
func (b *bench) left(d time.Duration) {
	b.Helper()
	expect.Soon(b, "the sentinel to age", func() bool {
		return b.rdb.PTTL(b.ctx, b.k.Sentinel()).Val() <= d
	})
}

func trusted(b *bench, h *sq.Claim) {
	b.Helper()
	if h.Lease().Held() != nil {
		return
	}
	lives := time.Now().Add(b.rdb.PTTL(b.ctx, b.k.Sentinel()).Val())
	if over := h.Lease().Deadline().Sub(lives); over > 0 {
		b.Errorf("the lease is trusted for %s longer than the sentinel lives", over.Round(time.Millisecond))
	}
}

// slowLoss carries out a script's first call, lets time pass and loses the reply.
type slowLoss struct {
	script string
	passed func()
	done   bool
}

func (f *slowLoss) DialHook(next redis.DialHook) redis.DialHook { return next }

func (f *slowLoss) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (f *slowLoss) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if f.done || err != nil || !called(f.script)(cmd) {
			return err
		}
		f.done = true
		f.passed()
		cmd.SetErr(redistest.ErrLostReply)
		return redistest.ErrLostReply
	}
}

// Renewals look on while Finish goes on from turn to turn.
func TestRenewWhileFinishing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, id := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		b.say(id)
	}
	h := b.claim()
	stop := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if r := b.c.Renew(b.ctx, []*sq.Claim{h})[0]; r.Err != nil && h.Lease().Held() == nil {
				t.Errorf("renew: %v", r.Err)
			}
		}
	})
	for b.finish(h) {
	}
	close(stop)
	group.Wait()
	expect.List(t, "what waits", b.waiting())
}

// A renewal answers what is asked of the turn, and gives it asynq's lease, with the
// sentinel's end. Before it has one asynqmon does not take the turn for an orphan.
func TestRenew(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.sayAll("a", "b", "c")
	h := b.start()
	b.rdb.PExpire(b.ctx, b.k.Sentinel(), 5*time.Second)
	expect.Equal(t, "leases before the first renewal", b.rdb.ZCard(b.ctx, b.k.Lease()).Val(), 0)
	active, err := b.inspector().ListActiveTasks(rediskey.Queue(key))
	expect.OK(t, err)
	if len(active) != 1 || active[0].IsOrphaned {
		t.Errorf("active in asynqmon: %+v", active)
	}
	r := b.c.Renew(b.ctx, []*sq.Claim{h})[0]
	expect.OK(t, r.Err)
	expect.Equal(t, "waiting", r.Waiting, 2)
	expect.Equal(t, "asked", r.Requested, nil)
	expect.Equal(t, "fence", r.Fence, h.Turn().Fence)
	if left := b.rdb.PTTL(b.ctx, b.k.Sentinel()).Val(); left < 50*time.Second {
		t.Errorf("the sentinel has %s left", left)
	}
	if score := b.rdb.ZScore(b.ctx, b.k.Lease(), b.task("a")).Val(); score < float64(time.Now().Unix()+50) {
		t.Errorf("asynq's lease ends at %v", score)
	}
	_, err = b.client.Stop(b.ctx, key)
	expect.OK(t, err)
	if r := b.c.Renew(b.ctx, []*sq.Claim{h})[0]; !errors.Is(r.Requested, sq.ErrStopRequested) {
		t.Errorf("after a stop it is asked %v", r.Requested)
	}
	b.die()
	r = b.c.Renew(b.ctx, []*sq.Claim{h})[0]
	if !errors.Is(r.Err, lease.ErrLost) || !errors.Is(h.Lease().Held(), lease.ErrLost) {
		t.Errorf("without a sentinel: %v, lease %v", r.Err, h.Lease().Held())
	}
}
