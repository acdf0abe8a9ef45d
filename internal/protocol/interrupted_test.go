package protocol_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/lease"
	"turnstile/pkg/resume"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// Turns that are interrupted, in the protocol's own moves.

func crashSuspends(c *protocol.Config) { c.CrashPolicy = protocol.CrashSuspend }

// did returns a turn's entries so far.
func did(turn protocol.ClaimedTurn, texts ...string) []session.Entry {
	entries := []session.Entry{{Role: session.RoleUser, Text: turn.Message.Text, Message: turn.Message.ID, Turn: turn.ID}}
	for _, text := range texts {
		entries = append(entries, session.Entry{Role: session.RoleAssistant, Text: text, Turn: turn.ID})
	}
	entries[len(entries)-1].Interrupted = true
	return entries
}

// mark marks the running turn as a drain does after its timeout.
func mark(b *actors.Bench, h *protocol.Claim, reason string) {
	b.Helper()
	m := b.Worker.Mark(b.Ctx, []*protocol.Claim{h}, reason)[0]
	expect.OK(b, m.Err)
	expect.Equal(b, "starting", m.Starting, false)
}

// historyOf returns the history that the turn's agent would get.
func historyOf(b *actors.Bench, h *protocol.Claim) protocol.History {
	b.Helper()
	p, err := h.History(b.Ctx)
	expect.OK(b, err)
	return p
}

func TestB26_MarkedIsNotSuspended(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t, crashSuspends)
	b.Say("a")
	h := b.Start()
	id := h.Turn().TranscriptID
	mark(b, h, resume.ReasonRestart)
	b.Die() // before it requeued the turn
	turn := b.Claim().Turn()
	expect.Equal(t, "session id", turn.TranscriptID, id)
	expect.Equal(t, "reset", turn.Reset, "")
	expect.Equal(t, "resume", turn.Resume, resume.ReasonRestart)
	r := resumeRecord(b)
	expect.Equal(t, "suspended", r.Suspended, false)
	expect.Equal(t, "interruptions", r.Interruptions, 1)
}

func TestB27_UnmarkedIsSuspended(t *testing.T) {
	t.Parallel()
	t.Run("suspend", func(t *testing.T) {
		t.Parallel()
		b := actors.NewBench(t, crashSuspends)
		b.Say("a")
		h := b.Start()
		old := h.Turn()
		expect.OK(t, actors.Checkpoint(b.Ctx, h, did(old, "half")))
		b.Die()
		b.Doubt()
		h = b.Claim()
		turn := h.Turn()
		expect.Equal(t, "message", turn.Message.ID, "a")
		expect.Equal(t, "reset", turn.Reset, "suspended")
		expect.Equal(t, "resume", turn.Resume, "")
		if turn.TranscriptID == old.TranscriptID {
			t.Error("the session id is the old one")
		}
		past := historyOf(b, h)
		expect.Equal(t, "entries from before", len(past.Entries), 0)
		expect.Equal(t, "no journal from before", past.Earlier == nil, true)
		// The message may still be the one that kills workers.
		expect.Equal(t, "interruptions", resumeRecord(b).Interruptions, 1)
		expect.OK(t, h.Promote(b.Ctx))
		b.Finish(h)
		expect.Equal(t, "record after a finished turn", resumeRecord(b), resume.Record{})
	})
	t.Run("resume", func(t *testing.T) {
		t.Parallel()
		b := actors.NewBench(t)
		b.Say("a")
		old := b.Start().Turn()
		b.Die()
		turn := b.Claim().Turn()
		expect.Equal(t, "session id", turn.TranscriptID, old.TranscriptID)
		expect.Equal(t, "reset", turn.Reset, "")
		expect.Equal(t, "resume", turn.Resume, resume.ReasonCrash)
	})
	t.Run("a message that kills every worker is archived all the same", func(t *testing.T) {
		t.Parallel()
		b := actors.NewBench(t, crashSuspends)
		b.SayAll("a", "b")
		for range 3 {
			expect.Equal(t, "message", b.Start().Turn().Message.ID, "a")
			b.Die()
			b.Doubt()
		}
		expect.Equal(t, "next message", b.Claim().Turn().Message.ID, "b")
		expect.Equal(t, "status", b.Outcome("a").Status, session.StatusFailed)
	})
	t.Run("a death before the agent's start is none of its doing", func(t *testing.T) {
		t.Parallel()
		b := actors.NewBench(t, crashSuspends)
		b.Say("a")
		old := b.Claim().Turn()
		b.Die()
		expect.Equal(t, "session id", b.Claim().Turn().TranscriptID, old.TranscriptID)
		expect.Equal(t, "record", resumeRecord(b), resume.Record{})
	})
}

// A mark lasts until a turn finishes, whatever comes in between. The next turn gets it, whether it
// has the sentinel from a claim or from the turn before.
func TestB23_OnlyAFinishedTurnClears(t *testing.T) {
	t.Parallel()
	for _, end := range []protocol.End{
		{Status: session.StatusFailed, Error: "no"},
		{Status: session.StatusInterrupted},
		{Status: session.StatusInterrupted, Rollback: true},
		{Status: session.StatusStopped},
		{Status: session.StatusExpired},
	} {
		for _, released := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s rollback=%v released=%v", end.Status, end.Rollback, released), func(t *testing.T) {
				t.Parallel()
				b := actors.NewBench(t)
				b.SayAll("a", "b", "c")
				b.Start()
				b.Die()
				h := b.Start()
				end := end // the other subtest uses it too
				end.Release = released
				more, err := h.Finish(b.Ctx, end)
				expect.OK(t, err)
				expect.Equal(t, "has a next turn", more, !released)
				if released {
					h = b.Claim()
				}
				turn := h.Turn()
				expect.Equal(t, "message", turn.Message.ID, "b")
				expect.Equal(t, "resume", turn.Resume, resume.ReasonCrash)
				history, err := h.History(b.Ctx)
				expect.OK(t, err)
				expect.Equal(t, "the record that it gets", history.Mark.Reason, resume.ReasonCrash)
				if age := history.Mark.Age; age <= 0 || age > time.Minute {
					t.Errorf("the mark's age is %s", age)
				}
				expect.OK(t, h.Promote(b.Ctx))
				expect.Equal(t, "has a next turn", b.Finish(h), true)
				expect.Equal(t, "resume after a finished turn", h.Turn().Resume, "")
				expect.Equal(t, "record after a finished turn", resumeRecord(b), resume.Record{})
			})
		}
	}
}

func TestB40_FinishedIsNotMarked(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	h := b.Start()
	b.Finish(h)
	before := b.Dump()
	if m := b.Worker.Mark(b.Ctx, []*protocol.Claim{h}, resume.ReasonShutdown)[0]; !errors.Is(m.Err, lease.ErrLost) {
		t.Errorf("mark of a finished turn: %v", m.Err)
	}
	actors.Same(t, "a mark of a finished turn", before, b.Dump())
}

func TestB41_StartingIsNotMarked(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.SayAll("a", "b")
	h := b.Claim()
	m := b.Worker.Mark(b.Ctx, []*protocol.Claim{h}, resume.ReasonShutdown)[0]
	expect.OK(t, m.Err)
	expect.Equal(t, "starting", m.Starting, true)
	if err := h.Promote(b.Ctx); !errors.Is(err, protocol.ErrDraining) {
		t.Errorf("promote: %v", err)
	}
	expect.OK(t, h.Park(b.Ctx, protocol.Parking{Interrupted: resume.ReasonShutdown}))
	expect.Equal(t, "record", resumeRecord(b), resume.Record{})
	expect.List(t, "waiting", b.Waiting(), "b")
	h = b.Start() // only that turn was refused
	expect.Equal(t, "resume", h.Turn().Resume, "")
	expect.Equal(t, "has a next turn", b.Finish(h), true)
	expect.OK(t, h.Promote(b.Ctx))
}

// Three interruptions suspend the session, however they came about.
func TestB43_ThreeOfAnyKind(t *testing.T) {
	t.Parallel()
	kinds := []string{"drain", "crash", "death in the drain"}
	for _, one := range kinds {
		for _, two := range kinds {
			for _, three := range kinds {
				t.Run(one+", "+two+", "+three, func(t *testing.T) {
					t.Parallel()
					b := actors.NewBench(t)
					b.SayAll("a", "b")
					var old protocol.ClaimedTurn
					for i, kind := range []string{one, two, three} {
						h := b.Start()
						expect.Equal(t, "message", h.Turn().Message.ID, "a")
						expect.Equal(t, "reset", h.Turn().Reset, "")
						expect.Equal(t, "interruptions before", resumeRecord(b).Interruptions, i)
						old = h.Turn()
						interrupt(b, h, kind)
					}
					if three == "crash" {
						b.Doubt()
					}
					h := b.Claim()
					turn := h.Turn()
					expect.Equal(t, "reset", turn.Reset, "suspended")
					expect.Equal(t, "resume", turn.Resume, "")
					expect.Equal(t, "history", len(historyOf(b, h).Entries), 0)
					expect.Equal(t, "no journal from before", historyOf(b, h).Earlier == nil, true)
					if turn.TranscriptID == old.TranscriptID {
						t.Error("the session id is the old one")
					}
					if three == "crash" { // it is archived
						expect.Equal(t, "message", turn.Message.ID, "b")
						expect.Equal(t, "status", b.Outcome("a").Status, session.StatusFailed)
					} else {
						expect.Equal(t, "message", turn.Message.ID, "a")
					}
					expect.Equal(t, "record", resumeRecord(b), resume.Record{})
				})
			}
		}
	}
}

// interrupt interrupts a running turn.
func interrupt(b *actors.Bench, h *protocol.Claim, kind string) {
	b.Helper()
	entries := did(h.Turn(), "half")
	switch kind {
	case "drain":
		mark(b, h, resume.ReasonShutdown)
		mark(b, h, resume.ReasonShutdown) // sent again, it counts once
		expect.OK(b, actors.Checkpoint(b.Ctx, h, entries))
		expect.OK(b, h.Park(b.Ctx, protocol.Parking{Interrupted: resume.ReasonShutdown}))
	case "crash":
		expect.OK(b, actors.Checkpoint(b.Ctx, h, entries))
		b.Die()
	case "death in the drain":
		mark(b, h, resume.ReasonShutdown)
		expect.OK(b, actors.Checkpoint(b.Ctx, h, entries))
		b.Die()
	}
}

// A message that kills its worker before the agent starts is archived as well. No turn was
// interrupted, so the session keeps its transcript.
func TestB43_DeadlyBeforeTheStart(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]int{"default": 0, "2": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t, func(c *protocol.Config) { c.StuckLimit = limit })
			b.Say("first")
			h := b.Start()
			id := h.Turn().TranscriptID
			b.Finish(h)
			b.SayAll("a", "b")
			deaths := max(limit, 3)
			if limit > 0 {
				deaths = limit
			}
			for n := range deaths {
				h := b.Claim()
				turn := h.Turn()
				expect.Equal(t, "message", turn.Message.ID, "a")
				expect.Equal(t, "redelivered", turn.Redelivered, n)
				b.Renew(h)
				b.Die()
			}
			b.Doubt()
			turn := b.Claim().Turn()
			expect.Equal(t, "next message", turn.Message.ID, "b")
			expect.Equal(t, "session id", turn.TranscriptID, id)
			expect.Equal(t, "resume", turn.Resume, "")
			o := b.Outcome("a")
			expect.Equal(t, "status", o.Status, session.StatusFailed)
			if want := fmt.Sprintf("its worker died %d times", deaths); !strings.Contains(o.Error, want) {
				t.Errorf("error %q, want %q in it", o.Error, want)
			}
			expect.Equal(t, "state", b.State("a"), "archived")
			expect.Equal(t, "record", resumeRecord(b), resume.Record{})
		})
	}
}

// The journal of such a message's interrupted turn goes with it. Found by make chaos.
func TestJournalOfAMessageThatIsGivenUp(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.SayAll("a", "b")
	interrupt(b, b.Start(), "crash")
	for range 3 {
		b.Renew(b.Claim())
		b.Die()
	}
	b.Doubt()
	expect.Equal(t, "journals before the last claim", b.Redis.Exists(b.Ctx, b.Keys.Journal()).Val(), 1)
	expect.Equal(t, "next message", b.Claim().Turn().Message.ID, "b")
	expect.Equal(t, "state", b.State("a"), "archived")
	expect.Equal(t, "journals", b.Redis.Exists(b.Ctx, b.Keys.Journal()).Val(), 0)
}

// Drains do not count as deaths.
func TestB43_DrainsBeforeTheStart(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	for range 5 {
		h := b.Claim()
		expect.OK(t, b.Worker.Mark(b.Ctx, []*protocol.Claim{h}, resume.ReasonShutdown)[0].Err)
		expect.OK(t, h.Park(b.Ctx, protocol.Parking{Interrupted: resume.ReasonShutdown}))
	}
	expect.List(t, "runs", b.Drain(), "a")
}
