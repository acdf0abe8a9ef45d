package protocol_test

import (
	"context"
	"sync"
	"testing"
	"time"

	sq "turnstile/internal/protocol"
	"turnstile/internal/rediskey"
	"turnstile/pkg/resume"
	"turnstile/pkg/session"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// loseClaim claims the session, and the reply is lost: of the plain script, or of the
// one that is sent where that does nothing.
func (b *bench) loseClaim(script string) {
	b.Helper()
	faults := &redistest.Faults{}
	faults.LoseReply(redistest.Script(sq.Scripts[script].Hash()), -1)
	b.rdb.AddHook(faults)
	defer faults.Clear()
	if holds, err := b.c.Claim(b.ctx, []string{key}); err == nil || len(holds) != 0 {
		b.Fatalf("a claim whose reply is lost: %d holds, %v", len(holds), err)
	}
}

// A claim whose reply was lost is taken back: the session waits for no TTL, and its
// message is as if nobody had taken it.
func TestClaimWithoutAReplyIsTakenBack(t *testing.T) {
	t.Parallel()
	for name, immediate := range map[string]bool{"starting": false, "immediate": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, func(c *sq.Config) { c.Immediate = immediate })
			b.sayAll("a", "b")
			for range 4 { // as often as would be a death too many
				b.rdb.Del(b.ctx, rediskey.Ready)
				b.loseClaim("claim_fast")
				b.rdb.Del(b.ctx, rediskey.Ready)
				expect.OK(t, b.c.Unclaim(b.ctx))
				expect.Equal(t, "workers are told", b.isIn(rediskey.Ready, key), true)
				expect.List(t, "the line", b.waiting(), "a", "b")
				expect.Equal(t, "sentinels", b.rdb.Exists(b.ctx, b.k.Sentinel(), b.k.Active()).Val(), 0)
			}
			turn := b.claim().Turn()
			expect.Equal(t, "message", turn.Message.ID, "a")
			expect.Equal(t, "redelivered", turn.Redelivered, 0)
			expect.Equal(t, "resume", turn.Resume, "")
			expect.Equal(t, "record", b.resume(), resume.Record{})
		})
	}
}

// What was claimed anew in between is not taken back.
func TestTakeBackOfAnothersClaim(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.say("a")
	b.loseClaim("claim_fast")
	b.die()
	h := b.claim()
	before := b.rdb.HGetAll(b.ctx, b.k.Run()).Val()
	expect.OK(t, b.c.Unclaim(b.ctx))
	after := b.rdb.HGetAll(b.ctx, b.k.Run()).Val()
	expect.Equal(t, "token", after["token"], before["token"])
	expect.Equal(t, "phase", after["phase"], before["phase"])
	expect.OK(t, h.Promote(b.ctx))
	b.finish(h)
}

// Nobody may have heard of a claim whose owner was not heard of: however often its
// sentinel ends, the message is not given up, and no turn is told of a crash.
func TestUnheardClaimIsNoDeath(t *testing.T) {
	t.Parallel()
	for name, immediate := range map[string]bool{"starting": false, "immediate": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, func(c *sq.Config) { c.Immediate = immediate })
			b.say("a")
			for n := range 7 {
				turn := b.claim().Turn()
				expect.Equal(t, "message", turn.Message.ID, "a")
				expect.Equal(t, "redelivered", turn.Redelivered, n)
				expect.Equal(t, "resume", turn.Resume, "")
				b.die()
			}
			expect.Equal(t, "record", b.resume(), resume.Record{})
			// It is heard of by its first event, too.
			h := b.claim()
			expect.OK(t, h.Emit(b.ctx, []session.Event{{Type: session.EventNotice, Text: "hi"}}))
			b.die()
			b.claim()
			expect.Equal(t, "deaths", b.rdb.HGet(b.ctx, b.k.Task(b.task("a")), "deaths").Val(), "1")
			if immediate {
				expect.Equal(t, "reason", b.resume().Reason, resume.ReasonCrash)
			}
		})
	}
}

// An owner that has checkpointed was heard of: the next turn goes on from that, so it is
// told of the crash.
func TestCheckpointTellsOfItsOwner(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(c *sq.Config) { c.Immediate = true })
	b.say("a")
	h := b.claim()
	expect.OK(t, h.Checkpoint(b.ctx, did(h.Turn(), "half")))
	b.die()
	h = b.claim()
	expect.Equal(t, "there is a partial", b.past(h).Partial != nil, true)
	expect.Equal(t, "resume", h.Turn().Resume, resume.ReasonCrash)
}

// A turn that was to begin a new conversation is still to begin it.
func TestTakeBackOfAFreshConversation(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.say("a")
	b.drain()
	sid := b.info().SessionID
	_, err := resume.Suspend(b.ctx, b.rdb, key)
	expect.OK(t, err)
	b.say("b")
	b.loseClaim("claim")
	expect.OK(t, b.c.Unclaim(b.ctx))
	turn := b.claim().Turn()
	expect.Equal(t, "reset", turn.Reset, "suspended")
	if turn.SessionID == sid {
		t.Error("the session id is the old one")
	}
}

// It ends with its context, and when the sentinel has ended by itself.
func TestTakeBackWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(c *sq.Config) { c.SentinelTTL = 100 * time.Millisecond })
	b.say("a")
	faults := &redistest.Faults{}
	faults.FailBefore(called("claim"), -1, redistest.ErrLostReply)
	faults.FailBefore(called("unclaim"), -1, redistest.ErrLostReply)
	b.rdb.AddHook(faults)
	for _, ends := range []string{"context", "sentinel"} {
		if _, err := b.c.Claim(b.ctx, []string{key}); err == nil {
			t.Fatal("no error")
		}
		ctx, cancel := context.WithCancel(b.ctx)
		if ends == "context" {
			cancel()
		}
		if err := b.c.Unclaim(ctx); err == nil {
			t.Errorf("%s: no error", ends)
		}
		cancel()
	}
	expect.OK(t, b.c.Unclaim(b.ctx)) // nothing is left to do
}

// A claim of which no reply came while another TakeBack comes to its end is taken back as
// well, by one of the two.
func TestNoUnheardClaimIsLeft(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for range 20_000 {
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				sq.HeardNothing(b.c.Consumer, key)
				_ = b.c.Unclaim(b.ctx)
			})
		}
		all.Wait()
		if n := sq.Unheard(b.c.Consumer); n > 0 {
			t.Fatalf("%d claims are left when every TakeBack is over", n)
		}
	}
}
