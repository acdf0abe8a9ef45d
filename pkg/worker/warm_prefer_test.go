package worker_test

import (
	"testing"

	"turnstile"

	"turnstile/internal/chat/receipt"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/redis/redisconn"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// The worker with a session's warm agent gets a signal before the message is in the ready index:
// here the sender stops between the two.
func TestTheWorkerWithTheWarmAgentClaimsFirst(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	warm := newWarmStage()
	r.worker(warm, warmAgents(2), slots(2))
	r.turn(warm, "m1", 1)
	cold := newStage()
	r.worker(cold)

	rdb, err := redisconn.Open(r.url)
	expect.OK(t, err)
	defer rdb.Close()
	var faults redistest.Faults
	rdb.AddHook(&faults)
	gate := faults.Gate(wakesOf(rediskey.Ready))
	sent := make(chan error, 1)
	go func() {
		_, err := receipt.Input(r.ctx, actors.NewClient(rdb).Session(r.key), turnstile.Message{ID: "m2", Text: "hi"})
		sent <- err
	}()
	warm.nextBy(t, "m2", 1).reply("ok")
	r.ends("m2", session.StatusDone)
	gate.Release()
	expect.OK(t, expect.Received(t, "the sender's end", sent))
	expect.Soon(t, "the late wake-up to find nothing to do", func() bool { return r.rdb.ZCard(r.ctx, rediskey.Ready).Val() == 0 })
	cold.empty(t)
}

// Another worker claims the session if the one with the warm agent has no free slot.
func TestABusyWorkerWithTheWarmAgentIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	warm := newWarmStage()
	r.worker(warm, warmAgents(2), slots(1))
	r.turn(warm, "m1", 1)
	free := r.busy(warm)
	cold := newStage()
	r.worker(cold)
	r.say("m2", "hi")
	cold.next(t, "m2").reply("ok")
	r.ends("m2", session.StatusDone)
	free()
}
