package protocol_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"turnstile"
	"turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// claimed claims the session. The turn may be one that is only to end.
func claimed(b *actors.Bench) *protocol.Claim {
	b.Helper()
	claims, err := b.Worker.Claim(b.Ctx, []string{actors.Key})
	expect.OK(b, err)
	expect.Equal(b, "claims", len(claims), 1)
	return claims[0]
}

// A turn that is only to end keeps its log as long as nobody has died while it ended it.
func TestEndingKeepsTheLog(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		between func(b *actors.Bench)
		want    protocol.Carries
	}{
		"at once": {func(*actors.Bench) {}, protocol.CarriesSteps},
		"its claim's reply was lost": {func(b *actors.Bench) {
			loseClaim(b, "claim")
			expect.OK(b, b.Worker.Unclaim(b.Ctx))
		}, protocol.CarriesSteps},
		"its owner lost the lease and lives": {func(b *actors.Bench) {
			h := claimed(b)
			b.Renew(h)
			expect.OK(b, h.Survive(b.Ctx))
		}, protocol.CarriesSteps},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			parked(b, time.Hour)
			expect.OK(t, b.Chat().CancelTurn(b.Ctx, "now"))
			c.between(b)
			h := claimed(b)
			expect.Equal(t, "it ends", h.Turn().Ends, protocol.ErrStopRequested)
			expect.Equal(t, "carries", h.Turn().Carries, c.want)
			_, err := actors.EndUnrun(b.Ctx, h)
			expect.OK(t, err)
			expect.Equal(t, "its end", b.Outcome("now").Status, session.StatusStopped)
			expect.List(t, "then", b.Drain(), "next")
		})
	}
}

// A turn whose worker died when it was to end it is ended by the next claim: what killed the worker may be in the log.
func TestEndingThatDied(t *testing.T) {
	t.Parallel()
	for name, want := range map[session.Mode]struct {
		status session.Status
		why    string
	}{
		"cancel":              {session.StatusStopped, "stopped by user"},
		session.ModeInterrupt: {session.StatusInterrupted, "interrupted by a newer message"},
		session.ModeRollback:  {session.StatusInterrupted, "rolled back by a newer message"},
	} {
		t.Run(string(name), func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			parked(b, time.Hour)
			if name == "cancel" {
				expect.OK(t, b.Chat().CancelTurn(b.Ctx, "now"))
			} else {
				b.Say("newer", name)
			}
			h := claimed(b)
			b.Renew(h)
			b.Die()
			b.Doubt()
			runs := []string{"newer", "next"}
			if name == "cancel" {
				runs = runs[1:]
			}
			expect.List(t, "then run", b.Drain(), runs...)
			end := b.Outcome("now")
			expect.Equal(t, "its end", string(end.Status)+": "+end.Error, string(want.status)+": "+want.why)
			expect.Equal(t, "its turn", end.Turn+" "+end.Continues, h.Turn().ID+" "+h.Turn().Continues)
			if b.Redis.Exists(b.Ctx, b.Keys.Journal()).Val() != 0 {
				t.Error("the log stays")
			}
			expect.Equal(t, "its work is kept", slices.Contains(b.Transcript(b.Info().TranscriptID), "item"), false)
			expect.Equal(t, "an operator sees it", b.IsIn(rediskey.Attention, actors.Key), true)
		})
	}
}

// A steer of which no output tells runs also if the end of its turn died. After a stop it does not.
func TestSteerOfAnEndThatDied(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ask  func(b *actors.Bench)
		runs []string
	}{
		"interrupt": {func(b *actors.Bench) { b.Say("now", session.ModeInterrupt) }, []string{"now", "steer1", "steer2"}},
		"stop":      {func(b *actors.Bench) { b.Command("/stop") }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			b.Say("a")
			h := b.Start()
			b.Say("steer1", session.ModeSteer)
			b.Say("steer2", session.ModeSteer)
			_, err := h.Steer(b.Ctx)
			expect.OK(t, err)
			expect.OK(t, h.Park(b.Ctx, protocol.Parking{Failed: errors.New("x"), Wait: time.Hour}))
			c.ask(b)
			b.EndDies()
			expect.List(t, "runs", b.Drain(), c.runs...)
			expect.Equal(t, "dead letters", len(b.Dead(actors.Key)), 3-max(len(c.runs)-1, 0))
		})
	}
}

// What an end that died cannot read keeps it from ending anything.
func TestEndingThatDiedWithALock(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	parked(b, time.Hour)
	lock := b.Keys.Task("lock") // of a wrong type
	expect.OK(t, b.Redis.HSet(b.Ctx, lock, "a", "b").Err())
	expect.OK(t, b.Redis.HSet(b.Ctx, b.Keys.Task(b.Task("now")), "unique_key", lock).Err())
	expect.OK(t, b.Chat().CancelTurn(b.Ctx, "now"))
	b.EndDies()
	was := b.Dump()
	if _, err := b.Worker.Claim(b.Ctx, []string{actors.Key}); !errors.Is(err, protocol.ErrBroken) {
		t.Errorf("claim: %v", err)
	}
	actors.Same(t, "a claim that cannot read the lock", was, b.Dump())
	expect.OK(t, b.Redis.Del(b.Ctx, lock).Err())
	expect.List(t, "then", b.Drain(), "next")
	expect.Equal(t, "its end", b.Outcome("now").Status, session.StatusStopped)
}

// A steer of which no output tells goes back when its turn ends without an agent.
func TestSteerOfATurnThatOnlyEnds(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	h := b.Start()
	b.Say("steer", session.ModeSteer)
	_, err := h.Steer(b.Ctx)
	expect.OK(t, err)
	expect.OK(t, h.Park(b.Ctx, protocol.Parking{Failed: errors.New("x"), Wait: time.Hour}))
	b.Say("now", session.ModeInterrupt)
	expect.List(t, "runs", b.Drain(), "now", "steer")
	expect.Equal(t, "a", b.Outcome("a").Status, session.StatusInterrupted)
}

// The next message never runs under the agent before /new.
func TestSuspendedTurnOfTheAgentBefore(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t, serves("support", "support", "coder"), func(c *protocol.Config) { c.StuckLimit = 1; c.Immediate = true })
	b.Say("a")
	h := b.Claim()
	_, err := b.Chat().NewTranscript(b.Ctx, turnstile.TranscriptConfig{Agent: "coder"})
	expect.OK(t, err)
	expect.OK(t, h.Park(b.Ctx, protocol.Parking{Interrupted: "drain"}))
	h = b.Claim()
	expect.Equal(t, "agent", h.Turn().Reset+" "+h.Turn().Agent, "suspended support")
	b.Say("b")
	b.Redis.Del(b.Ctx, b.Keys.Followups()) // what keeps the fast path away
	expect.Equal(t, "more", b.Finish(h), false)
	expect.Equal(t, "the next agent", b.Claim().Turn().Agent, "coder")
}

// A turn does not wait for its question after /new: it ends, whether /new comes before or after.
func TestNewWhileATurnAsks(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	h := b.Start()
	n := b.Asks(h, "shell")
	_, err := b.Chat().NewTranscript(b.Ctx)
	expect.OK(t, err)
	if err := h.Park(b.Ctx, protocol.Parking{Question: n, Wait: time.Hour}); !errors.Is(err, protocol.ErrInterruptRequested) {
		t.Errorf("park: %v", err)
	}
}

// Attempts and deaths are the turn's, whichever of its messages leaves it.
func TestCountsOutliveTheFirstMessage(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	collected(b)
	for range 2 {
		expect.OK(t, b.Start().Park(b.Ctx, protocol.Parking{Failed: errors.New("x")}))
	}
	b.Renew(b.Claim())
	b.Die()
	expect.OK(t, b.Start().Park(b.Ctx, protocol.Parking{Failed: errors.New("x")}))
	expect.OK(t, b.Chat().CancelTurn(b.Ctx, "one"))
	h := b.Claim()
	expect.Equal(t, "attempt", fmt.Sprint(actors.MessageIDs(h), h.Turn().Attempt), "[two] 4")
	expect.Equal(t, "deaths", b.Redis.HGet(b.Ctx, b.Keys.Task(b.Task("two")), "deaths").Val(), "1")
}

// A turn after /new is given up as a whole: its messages are of the conversation before.
func TestNotTakenApartAfterNew(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t, func(c *protocol.Config) { c.StuckLimit = 1; c.SentinelTTL = time.Minute })
	collected(b)
	b.Renew(b.Start())
	_, err := b.Chat().NewTranscript(b.Ctx)
	expect.OK(t, err)
	b.Die()
	b.Doubt()
	b.ClaimNothing("it is given up")
	for _, id := range []string{"one", "two"} {
		expect.Equal(t, id, b.Outcome(id).Status, session.StatusFailed)
	}
}

// A drain is not counted on a run that only ends its turn.
func TestDrainOfATurnThatOnlyEnds(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t, func(c *protocol.Config) { c.StuckLimit = 1; c.Immediate = true })
	b.Say("a")
	expect.OK(t, b.Claim().Park(b.Ctx, protocol.Parking{Failed: errors.New("x"), Wait: time.Hour}))
	expect.OK(t, b.Chat().CancelTurn(b.Ctx, "a"))
	claims, err := b.Worker.Claim(b.Ctx, []string{actors.Key})
	expect.OK(t, err)
	expect.OK(t, b.Worker.Mark(b.Ctx, claims, "drain")[0].Err)
	expect.Equal(t, "record", resumeRecord(b).Suspended, false)
}

// A turn whose messages are gone keeps nobody waiting.
func TestParkedTurnWithoutMessages(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	parked(b, time.Hour)
	b.Redis.Del(b.Ctx, b.Keys.Active(), b.Keys.Task(b.Task("now")))
	b.Redis.Del(b.Ctx, rediskey.Ready, rediskey.Due)
	b.Sweep()
	expect.Equal(t, "the sweep wakes it", b.IsIn(rediskey.Ready, actors.Key), true)
	expect.List(t, "runs", b.Drain(), "next")
}
