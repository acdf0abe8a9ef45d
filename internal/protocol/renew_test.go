package protocol_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/lease"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// A renewal finds the session released while the worker does not know it yet, because the reply was
// lost. That is no loss.
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

// Renewals run while Finish goes from turn to turn.
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

// A renewal returns requests to the turn, and renews asynq's lease until the sentinel's end. Before
// its first lease, asynqmon does not count the turn as an orphan.
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
	expect.Equal(t, "requested", r.Requested, nil)
	expect.Equal(t, "fence", r.Fence, h.Turn().Fence)
	if left := b.Redis.PTTL(b.Ctx, b.Keys.Sentinel()).Val(); left < 50*time.Second {
		t.Errorf("the sentinel has %s left", left)
	}
	if score := b.Redis.ZScore(b.Ctx, b.Keys.Lease(), b.Task("a")).Val(); score < float64(time.Now().Unix()+50) {
		t.Errorf("asynq's lease ends at %v", score)
	}
	_, err = b.Client.Session(actors.Key).Stop(b.Ctx)
	expect.OK(t, err)
	if r := b.Worker.Renew(b.Ctx, []*protocol.Claim{h})[0]; !errors.Is(r.Requested, protocol.ErrStopRequested) {
		t.Errorf("requested after a stop: %v", r.Requested)
	}
	b.Die()
	r = b.Worker.Renew(b.Ctx, []*protocol.Claim{h})[0]
	if !errors.Is(r.Err, lease.ErrLost) || !errors.Is(h.Lease().Held(), lease.ErrLost) {
		t.Errorf("without a sentinel: %v, lease %v", r.Err, h.Lease().Held())
	}
}

// A finish has released the sentinel, and its reply is in flight. A renewal that finds the sentinel
// gone does not undo it.
func TestRenewalDuringARelease(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.SayAll("a")
	h := b.Start()
	faults := &redistest.Faults{}
	b.Redis.AddHook(faults)
	for _, s := range variantsOf("finish") {
		expect.OK(t, s.Load(b.Ctx, b.Redis).Err())
	}
	gate := faults.GateReply(actors.Script("finish"))
	ended := make(chan error, 1)
	go func() {
		_, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusDone, Reply: "re: a"})
		ended <- err
	}()
	<-gate.Arrived()
	expect.Equal(t, "sentinels", b.Redis.Exists(b.Ctx, b.Keys.Sentinel()).Val(), 0)
	for _, r := range b.Worker.Renew(b.Ctx, []*protocol.Claim{h}) {
		expect.OK(t, r.Err)
	}
	gate.Release()
	expect.OK(t, <-ended)
}
