package protocol_test

import (
	"strings"
	"testing"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/resume"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// An owner that lost its lease and lives has not died with its message, whether it says so before
// the next claim, after it, or while that claim's verdict is in doubt.
func TestSurvivorsAreNotCounted(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]int{"before the claim": 3, "after the claim": 3, "in doubt": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t, func(c *protocol.Config) { c.StuckLimit = limit })
			b.SayAll("a", "b")
			var sid string
			for n := range 5 {
				h := b.Start()
				turn := h.Turn()
				expect.Equal(t, "message", turn.Message.ID, "a")
				expect.Equal(t, "redelivered", turn.Redelivered, n)
				if n > 0 {
					expect.Equal(t, "session id", turn.TranscriptID, sid)
					expect.Equal(t, "reset", turn.Reset, "")
				}
				sid = turn.TranscriptID
				b.Die()
				want := resume.ReasonLeaseLost
				var next *protocol.Claim
				switch name {
				case "after the claim":
					next, want = b.Claim(), resume.ReasonCrash
					expect.Equal(t, "interruptions before the word", resumeRecord(b).Interruptions, 1)
					expect.OK(t, h.Survive(b.Ctx))
				case "in doubt":
					b.ClaimNothing("the owner may live")
					b.Redis.Del(b.Ctx, rediskey.Ready)
				}
				expect.OK(t, h.Survive(b.Ctx))
				if name == "in doubt" && !b.IsIn(rediskey.Ready, actors.Key) {
					t.Error("the session was not woken")
				}
				if next == nil {
					next = b.Claim()
				}
				expect.Equal(t, "resume", next.Turn().Resume, want)
				r := resumeRecord(b)
				expect.Equal(t, "interruptions", r.Interruptions, 0)
				expect.Equal(t, "reason", r.Reason, resume.ReasonLeaseLost)
				expect.Equal(t, "suspended", r.Suspended, false)
				expect.OK(t, next.Requeue(b.Ctx, "")) // for the next round; it counts nothing
				expect.OK(t, b.Redis.HSet(b.Ctx, b.Keys.Task(b.Task("a")), "redelivered", n+1).Err())
			}
			h := b.Start()
			b.Finish(h)
			expect.Equal(t, "status", b.Outcome("a").Status, session.StatusDone)
			expect.Equal(t, "record", resumeRecord(b), resume.Record{})
		})
	}
}

// Deaths before the agent's start are taken back, too.
func TestSurvivorsOfAStartingTurn(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t, func(c *protocol.Config) { c.StuckLimit = 2 })
	b.Say("a")
	for range 4 {
		h := b.Claim()
		b.Renew(h)
		b.Die()
		next := b.Claim()
		expect.OK(t, h.Survive(b.Ctx))
		expect.OK(t, h.Survive(b.Ctx)) // its reply was lost
		expect.Equal(t, "deaths", b.Redis.HGet(b.Ctx, b.Keys.Task(b.Task("a")), "deaths").Val(), "0")
		expect.OK(t, next.Requeue(b.Ctx, ""))
	}
}

// Other counts stay: only the owner's own turn is taken back, once.
func TestSurvivorsTakeBackOnlyTheirOwn(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("poison")
	first := b.Start()
	b.Die()
	b.Start()
	b.Die()
	b.Start()
	expect.Equal(t, "interruptions", resumeRecord(b).Interruptions, 2)
	for range 2 {
		expect.OK(t, first.Survive(b.Ctx))
		expect.Equal(t, "interruptions", resumeRecord(b).Interruptions, 1)
	}
	expect.Equal(t, "reason", resumeRecord(b).Reason, resume.ReasonCrash)
	b.Die()
	b.Start()
	b.Die()
	b.Doubt()
	b.ClaimNothing("its only message was archived")
	if o := b.Outcome("poison"); !strings.Contains(o.Error, "its worker died in 3 turns in a row") {
		t.Errorf("error %q", o.Error)
	}
	expect.OK(t, first.Survive(b.Ctx))
	expect.Equal(t, "suspended", resumeRecord(b).Suspended, true)
}

// A survivor does not undo a turn with a stored end, and a later transcript's count stays.
func TestSurvivorsOfAnEndedTurn(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.SayAll("a", "b")
	old := b.Start()
	b.Die()
	h := b.Start()
	b.Finish(h)
	expect.OK(t, h.Promote(b.Ctx))
	b.Die()
	b.Start()
	expect.Equal(t, "interruptions", resumeRecord(b).Interruptions, 1)
	expect.OK(t, old.Survive(b.Ctx))
	expect.Equal(t, "interruptions", resumeRecord(b).Interruptions, 1)
	expect.Equal(t, "a", b.Outcome("a").Status, session.StatusDone)
}
