package protocol_test

import (
	"errors"
	"testing"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/resume"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// A turn whose agent could not be started leaves its messages as they were, whatever the turn was. The session is
// ready at once, however often that happens.
func TestGiveBack(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before func(b *actors.Bench) (begin func() *protocol.Claim)
		line   []string
		check  func(b *actors.Bench, turn protocol.ClaimedTurn)
	}{
		"ordinary":     {func(b *actors.Bench) func() *protocol.Claim { b.SayAll("a", "b"); return b.Start }, []string{"a", "b"}, nil},
		"not promoted": {func(b *actors.Bench) func() *protocol.Claim { b.SayAll("a", "b"); return b.Claim }, []string{"a", "b"}, nil},
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
		}, []string{"a", "b"}, nil},
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
		}, []string{"a", "s", "later"}, nil},
		"collected": {func(b *actors.Bench) func() *protocol.Claim {
			b.Say("now")
			h := b.Start()
			b.SayCollected("a", "b")
			b.Done(h)
			_, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusDone, Release: true})
			expect.OK(b, err)
			return b.Start
		}, []string{"a", "b"}, func(b *actors.Bench, turn protocol.ClaimedTurn) {
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
		}, []string{"a", "b"}, func(b *actors.Bench, turn protocol.ClaimedTurn) {
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
