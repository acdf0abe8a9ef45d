package protocol_test

import (
	"testing"

	sq "turnstile/internal/protocol"
	"turnstile/internal/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/expect"
)

// A /stop between a claim and its taking back means the message that was taken, too.
func TestStopBeforeAClaimIsTakenBack(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.sayAll("a", "b")
	b.loseClaim("claim_fast")
	s, err := b.client.Stop(b.ctx, key)
	expect.OK(t, err)
	expect.Equal(t, "phase", s.Phase, "starting")
	b.say("c")
	b.rdb.Del(b.ctx, rediskey.Ready)
	expect.OK(t, b.c.Unclaim(b.ctx))
	expect.Equal(t, "workers are told", b.isIn(rediskey.Ready, key), true)
	expect.List(t, "runs", b.drain(), "c")
	expect.Equal(t, "a", b.outcome("a").Status, session.StatusStopped)
}

// An operator deletes the message of a claim that is taken back: the workers hear of
// what is left.
func TestTakeBackOfADeletedMessage(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.say("a")
	b.loseClaim("claim_fast")
	b.rdb.Del(b.ctx, b.k.Task(b.task("a")))
	expect.OK(t, b.c.Unclaim(b.ctx))
}

// A repetition of the taking back, when another has taken the message meanwhile.
func TestTakeBackIsRepeatedLater(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.say("a")
	b.loseClaim("claim_fast")
	token := b.rdb.HGet(b.ctx, b.k.Run(), "token").Val()
	expect.OK(t, b.c.Unclaim(b.ctx))
	b.claim()
	_, err := sq.Do(b.ctx, b.rdb, "unclaim", sq.KeysOf(key, ""), nil, "token", token).Slice()
	expect.OK(t, err)
}

// What was collected into one turn still is, when its claim was taken back.
func TestTakeBackOfACollectedTurn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.say("now")
	h := b.start()
	b.collected("a", "b", "c")
	b.done(h)
	_, err := h.Finish(b.ctx, sq.End{Status: session.StatusDone, Release: true})
	expect.OK(t, err)
	b.loseClaim("claim")
	expect.OK(t, b.c.Unclaim(b.ctx))
	expect.Equal(t, "messages", len(b.claim().Turn().Messages()), 3)
}
