package protocol_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// damagedSituations are those of turns with a damaged record or log, or under a clock that jumped. Redis' clock cannot
// be set: instead, the stored time is the one that another clock would have written.
func damagedSituations() []situation {
	held := func(by time.Duration) func(b *actors.Bench) func() error {
		return func(b *actors.Bench) func() error {
			parked(b, time.Hour)
			b.Redis.HIncrBy(b.Ctx, b.Keys.Run(), "hold", by.Milliseconds())
			b.Redis.Del(b.Ctx, rediskey.Due) // a worker has taken it from there
			return claimMove(b)
		}
	}
	return []situation{
		{"claim", "tidies: nothing, as the log is of a wrong type", func(b *actors.Bench) func() error {
			parked(b, 0)
			spoil(b, b.Keys.Journal())
			return func() error {
				if err := claimMove(b)(); !errors.Is(err, protocol.ErrBroken) {
					return errors.Join(errors.New("the session is not broken"), err)
				}
				return nil
			}
		}},
		{"finish", "with a log of a wrong type", func(b *actors.Bench) func() error {
			b.SayAll("now", "next")
			h := b.Start()
			stepped(b, h, 1)
			spoil(b, b.Keys.Journal())
			return finishMove(b, h, session.StatusDone, false)
		}},
		{"claim", "tidies: a turn whose record has no phase", func(b *actors.Bench) func() error {
			b.SayAll("now", "next")
			stepped(b, b.Start(), 1)
			b.Die()
			b.Redis.HDel(b.Ctx, b.Keys.Run(), "phase")
			return claimMove(b)
		}},
		{"claim", "parked, and the clock jumped ahead", held(-2 * time.Hour)},
		{"claim", "parked, and the clock went back", held(2 * time.Hour)},
	}
}

// What becomes of these turns.
func TestDamagedSituations(t *testing.T) {
	t.Parallel()
	checks := map[string]func(b *actors.Bench){
		"tidies: nothing, as the log is of a wrong type": func(b *actors.Bench) { // until an operator deletes it
			expect.Equal(b, "phase", b.Info().Phase, session.PhaseParked)
			b.Redis.Del(b.Ctx, b.Keys.Journal())
			goesOn(b, "")
		},
		"with a log of a wrong type": func(b *actors.Bench) {
			expect.Equal(b, "its end", b.Outcome("now").Status, session.StatusDone)
			expect.Equal(b, "logs", b.Redis.Exists(b.Ctx, b.Keys.Journal()).Val(), 0)
			expect.Equal(b, "the next one", b.State("next"), "active")
		},
		"tidies: a turn whose record has no phase": func(b *actors.Bench) { // it begins again, with its log
			expect.List(b, "the line", b.Waiting(), "now", "next")
			goesOn(b, protocol.CarriesSteps)
		},
		"parked, and the clock jumped ahead": func(b *actors.Bench) { // it goes on early
			expect.Equal(b, "phase", b.Info().Phase, session.PhaseStarting)
			b.Die()
			goesOn(b, protocol.CarriesSteps)
		},
		"parked, and the clock went back": func(b *actors.Bench) { // it waits longer, and a stop still ends it
			expect.Equal(b, "due", fmt.Sprintf("%.0f", b.Redis.ZScore(b.Ctx, rediskey.Due, actors.Key).Val()), b.Redis.HGet(b.Ctx, b.Keys.Run(), "hold").Val())
			expect.Equal(b, "phase", b.Info().Phase, session.PhaseParked)
			expect.OK(b, cancelMove(b, "now", true)())
			expect.List(b, "what runs then", b.Drain(), "next")
			expect.Equal(b, "its end", b.Outcome("now").Status, session.StatusStopped)
		},
	}
	for _, s := range damagedSituations() {
		t.Run(s.script+"/"+s.name, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			expect.OK(t, s.prepare(b)())
			checks[s.name](b)
		})
	}
}

// goesOn claims the turn of "now", and checks what it carries on.
func goesOn(b *actors.Bench, carries protocol.Carries) {
	b.Helper()
	turn := b.Claim().Turn()
	expect.Equal(b, "message", turn.Message.ID, "now")
	expect.Equal(b, "carries", turn.Carries, carries)
}
