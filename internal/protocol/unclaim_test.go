package protocol_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/resume"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// loseClaim claims the session and loses the reply of this script: the fast path's, or the full
// path's.
func loseClaim(b *actors.Bench, script string) {
	b.Helper()
	faults := &redistest.Faults{}
	faults.LoseReply(redistest.Script(protocol.Scripts[script].Hash()), -1)
	b.Redis.AddHook(faults)
	defer faults.Clear()
	if claims, err := b.Worker.Claim(b.Ctx, []string{actors.Key}); err == nil || len(claims) != 0 {
		b.Fatalf("a claim whose reply is lost: %d claims, %v", len(claims), err)
	}
}

// A claim with a lost reply is undone: the session waits for no TTL, and its turn goes on as if it had not been
// claimed.
func TestClaimWithoutAReplyIsUndone(t *testing.T) {
	t.Parallel()
	for name, immediate := range map[string]bool{"starting": false, "immediate": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t, func(c *protocol.Config) { c.Immediate = immediate })
			b.SayAll("a", "b")
			for n := range 4 { // one death too many, if they counted
				b.Redis.Del(b.Ctx, rediskey.Ready)
				loseClaim(b, []string{"claim_fast", "claim"}[min(n, 1)])
				b.Redis.Del(b.Ctx, rediskey.Ready)
				expect.OK(t, b.Worker.Unclaim(b.Ctx))
				expect.Equal(t, "workers are notified", b.IsIn(rediskey.Ready, actors.Key), true)
				expect.List(t, "the line", b.Waiting(), "b")
				expect.Equal(t, "sentinels", b.Redis.Exists(b.Ctx, b.Keys.Sentinel()).Val(), 0)
			}
			turn := b.Claim().Turn()
			expect.Equal(t, "message", turn.Message.ID, "a")
			expect.Equal(t, "redelivered", turn.Redelivered, 0)
			expect.Equal(t, "resume", turn.Resume, "")
			expect.Equal(t, "record", resumeRecord(b), resume.Record{})
		})
	}
}

// A later claim is not undone.
func TestUnclaimOfAnothersClaim(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	loseClaim(b, "claim_fast")
	b.Die()
	h := b.Claim()
	before := b.Redis.HGetAll(b.Ctx, b.Keys.Run()).Val()
	expect.OK(t, b.Worker.Unclaim(b.Ctx))
	after := b.Redis.HGetAll(b.Ctx, b.Keys.Run()).Val()
	expect.Equal(t, "token", after["token"], before["token"])
	expect.Equal(t, "phase", after["phase"], before["phase"])
	expect.OK(t, h.Promote(b.Ctx))
	b.Finish(h)
}

// A death does not count before the owner's first sign of life: however often its sentinel ends,
// the message is not archived, and no turn gets a note of a crash.
func TestAClaimWithALostReplyIsNoDeath(t *testing.T) {
	t.Parallel()
	for name, immediate := range map[string]bool{"starting": false, "immediate": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t, func(c *protocol.Config) { c.Immediate = immediate })
			b.Say("a")
			for n := range 7 {
				turn := b.Claim().Turn()
				expect.Equal(t, "message", turn.Message.ID, "a")
				expect.Equal(t, "redelivered", turn.Redelivered, n)
				expect.Equal(t, "resume", turn.Resume, "")
				b.Die()
			}
			expect.Equal(t, "record", resumeRecord(b), resume.Record{})
			// Its first event is a sign of life too.
			h := b.Claim()
			expect.OK(t, h.Emit(b.Ctx, []session.Event{{Type: session.EventNotice, Text: "hi"}}))
			b.Die()
			b.Claim()
			if immediate {
				expect.Equal(t, "reason", resumeRecord(b).Reason, resume.ReasonCrash)
			} else {
				expect.Equal(t, "deaths", b.Redis.HGet(b.Ctx, b.Keys.Task(b.Task("a")), "deaths").Val(), "1")
			}
		})
	}
}

// A checkpoint is a sign of life: the next turn continues from it, with a note of the crash.
func TestCheckpointShowsItsOwner(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t, func(c *protocol.Config) { c.Immediate = true })
	b.Say("a")
	h := b.Claim()
	expect.OK(t, actors.Checkpoint(b.Ctx, h, did(h.Turn(), "half")))
	b.Die()
	h = b.Claim()
	expect.Equal(t, "there is earlier work", historyOf(b, h).Earlier != nil, true)
	expect.Equal(t, "resume", h.Turn().Resume, resume.ReasonCrash)
}

// A turn that was to begin a new transcript still begins it.
func TestUnclaimOfAFreshConversation(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	b.Drain()
	sid := b.Info().TranscriptID
	_, err := resume.Suspend(b.Ctx, b.Redis, actors.Key)
	expect.OK(t, err)
	b.Say("b")
	loseClaim(b, "claim")
	expect.OK(t, b.Worker.Unclaim(b.Ctx))
	turn := b.Claim().Turn()
	expect.Equal(t, "reset", turn.Reset, "suspended")
	if turn.TranscriptID == sid {
		t.Error("the session id is the old one")
	}
}

// Unclaim ends with its context, or when the sentinel has expired.
func TestUnclaimWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t, func(c *protocol.Config) { c.SentinelTTL = 100 * time.Millisecond })
	b.Say("a")
	faults := &redistest.Faults{}
	faults.FailBefore(actors.Script("claim"), -1, redistest.ErrLostReply)
	faults.FailBefore(actors.Script("unclaim"), -1, redistest.ErrLostReply)
	b.Redis.AddHook(faults)
	for _, ends := range []string{"context", "sentinel"} {
		if _, err := b.Worker.Claim(b.Ctx, []string{actors.Key}); err == nil {
			t.Fatal("no error")
		}
		ctx, cancel := context.WithCancel(b.Ctx)
		if ends == "context" {
			cancel()
		}
		if err := b.Worker.Unclaim(ctx); err == nil {
			t.Errorf("%s: no error", ends)
		}
		cancel()
	}
	expect.OK(t, b.Worker.Unclaim(b.Ctx)) // nothing is left to do
}

// A claim loses its reply while another Unclaim is ending: one of the two undoes it.
func TestNoClaimWithALostReplyIsLeft(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	rounds := 4_000
	if expect.Proof() {
		rounds = 20_000
	}
	for range rounds {
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				protocol.LoseReply(b.Worker.Consumer, actors.Key)
				_ = b.Worker.Unclaim(b.Ctx)
			})
		}
		all.Wait()
		if n := protocol.AwaitingUnclaim(b.Worker.Consumer); n > 0 {
			t.Fatalf("%d claims are left when every TakeBack is over", n)
		}
	}
}

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

// A turn whose agent could not be started leaves its messages as they were, whatever the turn was. The session is
// ready at once, however often that happens.
func TestGiveBack(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before func(b *actors.Bench) (begin func() *protocol.Claim)
		line   []string
		check  func(b *actors.Bench, turn protocol.ClaimedTurn)
	}{
		"ordinary":     {func(b *actors.Bench) func() *protocol.Claim { b.SayAll("a", "b"); return b.Start }, []string{"b"}, nil},
		"not promoted": {func(b *actors.Bench) func() *protocol.Claim { b.SayAll("a", "b"); return b.Claim }, []string{"b"}, nil},
		"the claim's second": {func(b *actors.Bench) func() *protocol.Claim {
			return func() *protocol.Claim {
				b.Say("before")
				h := b.Start()
				if b.State("a") == "" {
					b.SayAll("a", "b")
				}
				for h.Turn().Message.ID != "a" {
					expect.Equal(b, "goes on", b.Finish(h), true)
				}
				expect.OK(b, h.Promote(b.Ctx))
				return h
			}
		}, []string{"b"}, nil},
		"with a steer": {func(b *actors.Bench) func() *protocol.Claim {
			b.SayAll("a")
			return func() *protocol.Claim {
				h := b.Start()
				if b.State("s") == "" {
					b.Say("later")
					b.Say("s", session.ModeSteer)
				}
				_, err := h.Steer(b.Ctx)
				expect.OK(b, err)
				return h
			}
		}, []string{"later"}, nil},
		"collected": {func(b *actors.Bench) func() *protocol.Claim {
			b.Say("now")
			h := b.Start()
			b.SayCollected("a", "b")
			b.Done(h)
			_, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusDone, Release: true})
			expect.OK(b, err)
			return b.Start
		}, nil, func(b *actors.Bench, turn protocol.ClaimedTurn) {
			expect.Equal(b, "messages", len(turn.Messages()), 2)
		}},
		"with steps": {func(b *actors.Bench) func() *protocol.Claim {
			b.SayAll("a", "b")
			stepped(b, b.Start(), 1)
			b.Die()
			return b.Start
		}, []string{"b"}, func(b *actors.Bench, turn protocol.ClaimedTurn) {
			expect.Equal(b, "carries", turn.Carries, protocol.CarriesSteps)
		}},
		"after a suspension": {func(b *actors.Bench) func() *protocol.Claim {
			b.Say("before")
			b.Drain()
			_, err := resume.Suspend(b.Ctx, b.Redis, actors.Key)
			expect.OK(b, err)
			b.SayAll("a", "b")
			return b.Start
		}, []string{"b"}, func(b *actors.Bench, turn protocol.ClaimedTurn) {
			expect.Equal(b, "reset", turn.Reset, "suspended")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			actors.OnceAndTwice(t, func(t *testing.T, b *actors.Bench) {
				begin := c.before(b)
				h := begin()
				first := h.Turn()
				for range 4 { // one more than attempts and deaths are allowed
					b.Renew(h)
					b.Redis.Del(b.Ctx, rediskey.Ready)
					expect.OK(t, h.GiveBack(b.Ctx))
					expect.Equal(t, "ready", b.IsIn(rediskey.Ready, actors.Key), true)
					expect.List(t, "the line", b.Waiting(), c.line...)
					h = begin()
				}
				turn := h.Turn()
				expect.Equal(t, "message", turn.Message.ID, "a")
				expect.Equal(t, "attempt", turn.Attempt, first.Attempt)
				expect.Equal(t, "redelivered", turn.Redelivered, first.Redelivered)
				expect.Equal(t, "resume", turn.Resume, first.Resume)
				if c.check != nil {
					c.check(b, turn)
				}
				b.Finish(h)
				expect.Equal(t, "a", b.Outcome("a").Status, session.StatusDone)
			})
		})
	}
}

// Followers see nothing of it, unless they have seen the turn's start.
func TestGiveBackIsShownAfterAStart(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	expect.OK(t, b.Start().GiveBack(b.Ctx))
	expect.Equal(t, "starts", len(eventsAbout(b, session.EventTurnStarted, "a")), 0)
	h := b.Start()
	expect.OK(t, h.Emit(b.Ctx, nil))
	expect.OK(t, h.GiveBack(b.Ctx))
	shown := eventsAbout(b, session.EventTurnRequeued, "a")
	expect.Equal(t, "shown", len(shown), 1)
	expect.Equal(t, "reason", shown[0].Reason, session.ReasonUnavailable)
	expect.Equal(t, "of the turn", shown[0].Turn, h.Turn().ID)
}

// Of a turn whose end was requested in the meantime nothing goes back: its owner ends it, because no other worker may
// come for long.
func TestRequestBeforeAGiveBack(t *testing.T) {
	t.Parallel()
	for want, request := range map[error]func(b *actors.Bench){
		protocol.ErrStopRequested: func(b *actors.Bench) {
			_, err := b.Chat().Stop(b.Ctx)
			expect.OK(b, err)
		},
		protocol.ErrInterruptRequested: func(b *actors.Bench) { b.Say("i", session.ModeInterrupt) },
		protocol.ErrRollbackRequested:  func(b *actors.Bench) { b.Say("i", session.ModeRollback) },
	} {
		t.Run(want.Error(), func(t *testing.T) {
			t.Parallel()
			actors.OnceAndTwice(t, func(t *testing.T, b *actors.Bench) {
				b.Say("a")
				h := b.Start()
				request(b)
				if err := h.GiveBack(b.Ctx); !errors.Is(err, want) {
					t.Fatalf("%v, want %v", err, want)
				}
				_, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusStopped})
				expect.OK(t, err)
				expect.Equal(t, "a", b.Outcome("a").Status, session.StatusStopped)
			})
		})
	}
}
