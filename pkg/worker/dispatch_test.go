package worker_test

import (
	"testing"
	"testing/synctest"
	"time"

	"turnstile"

	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/session"
	"turnstile/pkg/worker"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// While the worker waits for a session it holds no slot. If its only slot is taken when a session
// arrives, the session goes back into the ready index at once: any worker may claim it.
func TestASessionWithoutASlotIsPutBack(t *testing.T) {
	t.Parallel()
	r, faults := newRig(t), &redistest.Faults{}
	other := r.key + ".other"
	popped := faults.GateReply(redistest.Named("bzpopmin"))
	warm := newWarmStage()
	r.say("m1", "hi")
	w := r.worker(warm, warmAgents(2), slots(1), faulty(faults), with(func(o *worker.Config) { o.SweepInterval = time.Hour }))
	warm.nextBy(t, "m1", 1).reply("ok")
	r.ends("m1", session.StatusDone)
	expect.Soon(t, "a warm agent", func() bool { _, ok := w.WarmAgent(r.key); return ok })
	expect.Soon(t, "the worker to wait for a session", func() bool { return faults.CountNamed("bzpopmin") > 0 })
	r.send(other, turnstile.Message{ID: "o1", Text: "hi"})
	expect.Received(t, "the session", popped.Arrived())
	expect.OK(t, r.rdb.ZRem(r.ctx, rediskey.Owned, other).Err()) // else reap finds it
	r.say("m2", "hi")
	second := warm.nextBy(t, "m2", 1) // by the signal, before the pop has its reply
	popped.Release()
	expect.Soon(t, "the other session to be ready again", func() bool {
		return r.rdb.ZScore(r.ctx, rediskey.Ready, other).Err() == nil
	})
	second.reply("ok")
	warm.nextBy(t, "o1", 2).reply("ok")
}

// A drain waits for claims in flight: their sessions are the worker's, which must give them back.
func TestDrainWaitsForClaimsInFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		claimed, drained := make(chan struct{}), make(chan struct{})
		go func() {
			worker.DrainDuring(func() { <-claimed })
			close(drained)
		}()
		synctest.Wait()
		select {
		case <-drained:
			t.Error("the drain ended during a claim")
		default:
		}
		close(claimed)
		<-drained
	})
}
