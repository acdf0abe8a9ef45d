package protocol_test

import (
	"testing"

	"turnstile/internal/protocol"
	"turnstile/internal/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// A /stop between a claim and its taking back means the message that was taken, too.
func TestStopBeforeAnUnclaim(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.SayAll("a", "b")
	loseClaim(b, "claim_fast")
	s, err := b.Client.Stop(b.Ctx, actors.Key)
	expect.OK(t, err)
	expect.Equal(t, "phase", s.Phase, "starting")
	b.Say("c")
	b.Redis.Del(b.Ctx, rediskey.Ready)
	expect.OK(t, b.Worker.Unclaim(b.Ctx))
	expect.Equal(t, "workers are told", b.IsIn(rediskey.Ready, actors.Key), true)
	expect.List(t, "runs", b.Drain(), "c")
	expect.Equal(t, "a", b.Outcome("a").Status, session.StatusStopped)
}

// An operator deletes the message of a claim that is taken back: the workers hear of
// what is left.
func TestUnclaimOfADeletedMessage(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	loseClaim(b, "claim_fast")
	b.Redis.Del(b.Ctx, b.Keys.Task(b.Task("a")))
	expect.OK(t, b.Worker.Unclaim(b.Ctx))
}

// A repetition of the taking back, when another has taken the message meanwhile.
func TestUnclaimIsRepeatedLater(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	loseClaim(b, "claim_fast")
	token := b.Redis.HGet(b.Ctx, b.Keys.Run(), "token").Val()
	expect.OK(t, b.Worker.Unclaim(b.Ctx))
	b.Claim()
	_, err := protocol.Do(b.Ctx, b.Redis, "unclaim", protocol.KeysOf(actors.Key, ""), nil, "token", token).Slice()
	expect.OK(t, err)
}

// What was collected into one turn still is, when its claim was taken back.
func TestUnclaimOfACollectedTurn(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("now")
	h := b.Start()
	b.SayCollected("a", "b", "c")
	b.Done(h)
	_, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusDone, Release: true})
	expect.OK(t, err)
	loseClaim(b, "claim")
	expect.OK(t, b.Worker.Unclaim(b.Ctx))
	expect.Equal(t, "messages", len(b.Claim().Turn().Messages()), 3)
}
