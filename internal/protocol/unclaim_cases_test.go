package protocol_test

import (
	"testing"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// A /stop between a claim and its unclaim also stops the message that was claimed.
func TestStopBeforeAnUnclaim(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.SayAll("a", "b")
	loseClaim(b, "claim_fast")
	s, err := b.Client.Session(actors.Key).Stop(b.Ctx)
	expect.OK(t, err)
	expect.Equal(t, "phase", s.Phase, "starting")
	b.Say("c")
	b.Redis.Del(b.Ctx, rediskey.Ready)
	expect.OK(t, b.Worker.Unclaim(b.Ctx))
	expect.Equal(t, "workers are notified", b.IsIn(rediskey.Ready, actors.Key), true)
	expect.List(t, "runs", b.Drain(), "c")
	expect.Equal(t, "a", b.Outcome("a").Status, session.StatusStopped)
}

// An operator deletes the message of a claim that is undone: workers get the other messages.
func TestUnclaimOfADeletedMessage(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	loseClaim(b, "claim_fast")
	b.Redis.Del(b.Ctx, b.Keys.Task(b.Task("a")))
	expect.OK(t, b.Worker.Unclaim(b.Ctx))
}

// Unclaim is repeated after another claim has taken the message.
func TestUnclaimIsRepeatedLater(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	loseClaim(b, "claim_fast")
	token := b.Redis.HGet(b.Ctx, b.Keys.Run(), "token").Val()
	expect.OK(t, b.Worker.Unclaim(b.Ctx))
	b.Claim()
	_, err := protocol.Do(b.Ctx, b.Redis, "unclaim", protocol.KeysOf(actors.Key, ""), nil, "token", token, "parks", true, "gives", false).Slice()
	expect.OK(t, err)
}

// Messages that were collected into one turn still are after its claim was undone.
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
