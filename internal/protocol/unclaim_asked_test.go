package protocol_test

import (
	"testing"

	sq "turnstile/internal/protocol"
	"turnstile/internal/rediskey"
	"turnstile/pkg/session"
)

// A /stop between a claim and its taking back means the message that was taken, too.
func TestStopBeforeAClaimIsTakenBack(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.sayAll("a", "b")
	b.loseClaim("claim_fast")
	s, err := b.client.Stop(b.ctx, key)
	must(t, err)
	equal(t, "phase", s.Phase, "starting")
	b.say("c")
	b.rdb.Del(b.ctx, rediskey.Ready)
	must(t, b.c.TakeBack(b.ctx))
	equal(t, "workers are told", b.isIn(rediskey.Ready, key), true)
	equalList(t, "runs", b.drain(), "c")
	equal(t, "a", b.outcome("a").Status, session.StatusStopped)
}

// An operator deletes the message of a claim that is taken back: the workers hear of
// what is left.
func TestTakeBackOfADeletedMessage(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.say("a")
	b.loseClaim("claim_fast")
	b.rdb.Del(b.ctx, b.k.Task(b.task("a")))
	must(t, b.c.TakeBack(b.ctx))
}

// A repetition of the taking back, when another has taken the message meanwhile.
func TestTakeBackIsRepeatedLater(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.say("a")
	b.loseClaim("claim_fast")
	token := b.rdb.HGet(b.ctx, b.k.Run(), "token").Val()
	must(t, b.c.TakeBack(b.ctx))
	b.claim()
	_, err := sq.Do(b.ctx, b.rdb, "unclaim", sq.KeysOf(key, ""), nil, "token", token).Slice()
	must(t, err)
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
	must(t, err)
	b.loseClaim("claim")
	must(t, b.c.TakeBack(b.ctx))
	equal(t, "messages", len(b.claim().Turn().Messages()), 3)
}
