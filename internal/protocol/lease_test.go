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
	"turnstile/internal/protocol"
	"turnstile/internal/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// An owner that trusts its lease longer than the sentinel lives may run beside
// the next owner. Each move that extends the one has to extend the other.
func TestLeaseEndsBeforeTheSentinel(t *testing.T) {
	t.Parallel()
	moves := map[string]func(b *actors.Bench, h *protocol.Claim) error{
		"promote": func(b *actors.Bench, h *protocol.Claim) error { return h.Promote(b.Ctx) },
		"renew": func(b *actors.Bench, h *protocol.Claim) error {
			return b.Worker.Renew(b.Ctx, []*protocol.Claim{h})[0].Err
		},
		"emit": func(b *actors.Bench, h *protocol.Claim) error {
			return h.Emit(b.Ctx, []session.Event{{Type: session.EventNotice, Text: "hi"}})
		},
		"finish": func(b *actors.Bench, h *protocol.Claim) error {
			if !b.Finish(h) {
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
			b.Redis.AddHook(&slowLoss{script: name, passed: func() { waitForLeft(b, 700*time.Millisecond) }})
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
	b := actors.NewBench(t)
	b.Say("a")
	var before time.Time
	b.Redis.AddHook(actors.SendTwice(actors.Script("claim"), func() { before = time.Now() }))
	h := b.Claim()
	if over := h.Lease().Deadline().Sub(before.Add(b.Worker.Config().SentinelTTL * 9 / 10)); over > 0 {
		t.Errorf("the lease is trusted for %s longer than it may be", over)
	}
}

// A renewal finds that the session was released, while the worker does not know yet,
// since the answer was lost: that is no loss.
func TestRenewWhileAReleaseIsRepeated(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	for i := range 30 {
		b.Say(strconv.Itoa(i))
		h := b.Claim()
		faults := &redistest.Faults{}
		b.Redis.AddHook(faults)
		faults.LoseReply(actors.Script("finish"), 1)
		var renewals sync.WaitGroup
		over, end := context.WithCancel(b.Ctx)
		for range 3 {
			renewals.Go(func() {
				for over.Err() == nil {
					b.Worker.Renew(b.Ctx, []*protocol.Claim{h})
				}
			})
		}
		_, err := h.Finish(b.Ctx, b.Done(h))
		end()
		renewals.Wait()
		faults.Clear()
		expect.OK(t, err)
	}
}

// ageing is a hold of one second some of which has passed.
func ageing(t *testing.T) (*actors.Bench, *protocol.Claim) {
	t.Helper()
	b := actors.NewBench(t, func(c *protocol.Config) { c.SentinelTTL = time.Second })
	b.SayAll("a", "b")
	h := b.Claim()
	waitForLeft(b, 700*time.Millisecond)
	return b, h
}

// left waits until the sentinel has no more than d to live.
func waitForLeft(b *actors.Bench, d time.Duration) {
	b.Helper()
	expect.Soon(b, "the sentinel to age", func() bool {
		return b.Redis.PTTL(b.Ctx, b.Keys.Sentinel()).Val() <= d
	})
}

func trusted(b *actors.Bench, h *protocol.Claim) {
	b.Helper()
	if h.Lease().Held() != nil {
		return
	}
	lives := time.Now().Add(b.Redis.PTTL(b.Ctx, b.Keys.Sentinel()).Val())
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
		if f.done || err != nil || !actors.Script(f.script)(cmd) {
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
	b := actors.NewBench(t)
	for _, id := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		b.Say(id)
	}
	h := b.Claim()
	stop := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if r := b.Worker.Renew(b.Ctx, []*protocol.Claim{h})[0]; r.Err != nil && h.Lease().Held() == nil {
				t.Errorf("renew: %v", r.Err)
			}
		}
	})
	for b.Finish(h) {
	}
	close(stop)
	group.Wait()
	expect.List(t, "what waits", b.Waiting())
}

// A renewal answers what is asked of the turn, and gives it asynq's lease, with the
// sentinel's end. Before it has one asynqmon does not take the turn for an orphan.
func TestRenew(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.SayAll("a", "b", "c")
	h := b.Start()
	b.Redis.PExpire(b.Ctx, b.Keys.Sentinel(), 5*time.Second)
	expect.Equal(t, "leases before the first renewal", b.Redis.ZCard(b.Ctx, b.Keys.Lease()).Val(), 0)
	active, err := b.Inspector().ListActiveTasks(rediskey.Queue(actors.Key))
	expect.OK(t, err)
	if len(active) != 1 || active[0].IsOrphaned {
		t.Errorf("active in asynqmon: %+v", active)
	}
	r := b.Worker.Renew(b.Ctx, []*protocol.Claim{h})[0]
	expect.OK(t, r.Err)
	expect.Equal(t, "waiting", r.Waiting, 2)
	expect.Equal(t, "asked", r.Requested, nil)
	expect.Equal(t, "fence", r.Fence, h.Turn().Fence)
	if left := b.Redis.PTTL(b.Ctx, b.Keys.Sentinel()).Val(); left < 50*time.Second {
		t.Errorf("the sentinel has %s left", left)
	}
	if score := b.Redis.ZScore(b.Ctx, b.Keys.Lease(), b.Task("a")).Val(); score < float64(time.Now().Unix()+50) {
		t.Errorf("asynq's lease ends at %v", score)
	}
	_, err = b.Client.Stop(b.Ctx, actors.Key)
	expect.OK(t, err)
	if r := b.Worker.Renew(b.Ctx, []*protocol.Claim{h})[0]; !errors.Is(r.Requested, protocol.ErrStopRequested) {
		t.Errorf("after a stop it is asked %v", r.Requested)
	}
	b.Die()
	r = b.Worker.Renew(b.Ctx, []*protocol.Claim{h})[0]
	if !errors.Is(r.Err, lease.ErrLost) || !errors.Is(h.Lease().Held(), lease.ErrLost) {
		t.Errorf("without a sentinel: %v, lease %v", r.Err, h.Lease().Held())
	}
}
