package protocol_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"turnstile/internal/lease"
	sq "turnstile/internal/protocol"
	"turnstile/pkg/resume"
	"turnstile/pkg/session"
	"turnstile/test/expect"
)

// Turns that are cut off, in the protocol's own moves.

func crashSuspends(c *sq.Config) { c.CrashPolicy = sq.CrashSuspend }

// did is what a turn has done so far.
func did(turn sq.Turn, texts ...string) []session.Entry {
	entries := []session.Entry{{Role: session.RoleUser, Text: turn.Message.Text, Message: turn.Message.ID, Turn: turn.ID}}
	for _, text := range texts {
		entries = append(entries, session.Entry{Role: session.RoleAssistant, Text: text, Turn: turn.ID})
	}
	entries[len(entries)-1].Interrupted = true
	return entries
}

// mark is a drain whose time is up, while the turn runs.
func (b *bench) mark(h *sq.Claim, reason string) {
	b.Helper()
	m := b.c.Mark(b.ctx, []*sq.Claim{h}, reason)[0]
	expect.OK(b, m.Err)
	expect.Equal(b, "starting", m.Starting, false)
}

// past is what the turn's agent would be told.
func (b *bench) past(h *sq.Claim) sq.History {
	b.Helper()
	p, err := h.History(b.ctx)
	expect.OK(b, err)
	return p
}

func TestB26_MarkedIsNotSuspended(t *testing.T) {
	t.Parallel()
	b := newBench(t, crashSuspends)
	b.say("a")
	h := b.start()
	id := h.Turn().SessionID
	b.mark(h, resume.ReasonRestart)
	b.die() // before it could give the turn back
	turn := b.claim().Turn()
	expect.Equal(t, "session id", turn.SessionID, id)
	expect.Equal(t, "reset", turn.Reset, "")
	expect.Equal(t, "resume", turn.Resume, resume.ReasonRestart)
	r := b.resume()
	expect.Equal(t, "suspended", r.Suspended, false)
	expect.Equal(t, "interruptions", r.Interruptions, 1)
}

func TestB27_UnmarkedIsSuspended(t *testing.T) {
	t.Parallel()
	t.Run("suspend", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, crashSuspends)
		b.say("a")
		h := b.start()
		old := h.Turn()
		expect.OK(t, h.Checkpoint(b.ctx, did(old, "half")))
		b.die()
		h = b.claim()
		turn := h.Turn()
		expect.Equal(t, "message", turn.Message.ID, "a")
		expect.Equal(t, "reset", turn.Reset, "suspended")
		expect.Equal(t, "resume", turn.Resume, "")
		if turn.SessionID == old.SessionID {
			t.Error("the session id is the old one")
		}
		past := b.past(h)
		expect.Equal(t, "entries from before", len(past.Entries), 0)
		expect.Equal(t, "a partial from before", past.Partial == nil, true)
		// It may still be the message that kills the workers.
		expect.Equal(t, "interruptions", b.resume().Interruptions, 1)
		expect.OK(t, h.Promote(b.ctx))
		b.finish(h)
		expect.Equal(t, "record after a finished turn", b.resume(), resume.Record{})
	})
	t.Run("resume", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.say("a")
		old := b.start().Turn()
		b.die()
		turn := b.claim().Turn()
		expect.Equal(t, "session id", turn.SessionID, old.SessionID)
		expect.Equal(t, "reset", turn.Reset, "")
		expect.Equal(t, "resume", turn.Resume, resume.ReasonCrash)
	})
	t.Run("a message that kills every worker is given up all the same", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, crashSuspends)
		b.sayAll("a", "b")
		for range 3 {
			expect.Equal(t, "message", b.start().Turn().Message.ID, "a")
			b.die()
		}
		expect.Equal(t, "next message", b.claim().Turn().Message.ID, "b")
		expect.Equal(t, "status", b.outcome("a").Status, session.StatusFailed)
	})
	t.Run("a death before the agent's start is none of its doing", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, crashSuspends)
		b.say("a")
		old := b.claim().Turn()
		b.die()
		expect.Equal(t, "session id", b.claim().Turn().SessionID, old.SessionID)
		expect.Equal(t, "record", b.resume(), resume.Record{})
	})
}

// A mark survives whatever comes between it and a finished turn: the next turn is
// told of it, whether it has the sentinel from a claim or from the turn before.
func TestB23_OnlyAFinishedTurnClears(t *testing.T) {
	t.Parallel()
	for _, end := range []sq.End{
		{Status: session.StatusFailed, Error: "no"},
		{Status: session.StatusInterrupted},
		{Status: session.StatusInterrupted, Rollback: true},
		{Status: session.StatusStopped},
		{Status: session.StatusExpired},
	} {
		for _, released := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s rollback=%v released=%v", end.Status, end.Rollback, released), func(t *testing.T) {
				t.Parallel()
				b := newBench(t)
				b.sayAll("a", "b", "c")
				b.start()
				b.die()
				h := b.start()
				end := end // the other subtest has it, too
				end.Release = released
				more, err := h.Finish(b.ctx, end)
				expect.OK(t, err)
				expect.Equal(t, "goes on", more, !released)
				if released {
					h = b.claim()
				}
				turn := h.Turn()
				expect.Equal(t, "message", turn.Message.ID, "b")
				expect.Equal(t, "resume", turn.Resume, resume.ReasonCrash)
				if turn.ResumeAge < 0 || turn.ResumeAge > time.Minute {
					t.Errorf("the mark's age is %s", turn.ResumeAge)
				}
				expect.OK(t, h.Promote(b.ctx))
				expect.Equal(t, "goes on", b.finish(h), true)
				expect.Equal(t, "resume after a finished turn", h.Turn().Resume, "")
				expect.Equal(t, "record after a finished turn", b.resume(), resume.Record{})
			})
		}
	}
}

func TestB40_FinishedIsNotMarked(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.say("a")
	h := b.start()
	b.finish(h)
	before := b.dump()
	if m := b.c.Mark(b.ctx, []*sq.Claim{h}, resume.ReasonShutdown)[0]; !errors.Is(m.Err, lease.ErrLost) {
		t.Errorf("mark of a finished turn: %v", m.Err)
	}
	same(t, "a mark of a finished turn", before, b.dump())
}

func TestB41_StartingIsNotMarked(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.sayAll("a", "b")
	h := b.claim()
	m := b.c.Mark(b.ctx, []*sq.Claim{h}, resume.ReasonShutdown)[0]
	expect.OK(t, m.Err)
	expect.Equal(t, "starting", m.Starting, true)
	if err := h.Promote(b.ctx); !errors.Is(err, sq.ErrDraining) {
		t.Errorf("promote: %v", err)
	}
	expect.OK(t, h.Requeue(b.ctx, resume.ReasonShutdown))
	expect.Equal(t, "record", b.resume(), resume.Record{})
	expect.List(t, "waiting", b.waiting(), "a", "b")
	h = b.start() // only that turn was refused
	expect.Equal(t, "resume", h.Turn().Resume, "")
	expect.Equal(t, "goes on", b.finish(h), true)
	expect.OK(t, h.Promote(b.ctx))
}

// However three interruptions came about, the session is suspended.
func TestB43_ThreeOfAnyKind(t *testing.T) {
	t.Parallel()
	kinds := []string{"drain", "crash", "death in the drain"}
	for _, one := range kinds {
		for _, two := range kinds {
			for _, three := range kinds {
				t.Run(one+", "+two+", "+three, func(t *testing.T) {
					t.Parallel()
					b := newBench(t)
					b.sayAll("a", "b")
					var old sq.Turn
					for i, kind := range []string{one, two, three} {
						h := b.start()
						expect.Equal(t, "message", h.Turn().Message.ID, "a")
						expect.Equal(t, "reset", h.Turn().Reset, "")
						expect.Equal(t, "interruptions before", b.resume().Interruptions, i)
						old = h.Turn()
						b.interrupt(h, kind)
					}
					h := b.claim()
					turn := h.Turn()
					expect.Equal(t, "reset", turn.Reset, "suspended")
					expect.Equal(t, "resume", turn.Resume, "")
					expect.Equal(t, "past", len(b.past(h).Entries), 0)
					expect.Equal(t, "a partial from before", b.past(h).Partial == nil, true)
					if turn.SessionID == old.SessionID {
						t.Error("the session id is the old one")
					}
					if three == "crash" { // it is given up
						expect.Equal(t, "message", turn.Message.ID, "b")
						expect.Equal(t, "status", b.outcome("a").Status, session.StatusFailed)
					} else {
						expect.Equal(t, "message", turn.Message.ID, "a")
					}
					expect.Equal(t, "record", b.resume(), resume.Record{})
				})
			}
		}
	}
}

// interrupt cuts a running turn off.
func (b *bench) interrupt(h *sq.Claim, kind string) {
	b.Helper()
	entries := did(h.Turn(), "half")
	switch kind {
	case "drain":
		b.mark(h, resume.ReasonShutdown)
		b.mark(h, resume.ReasonShutdown) // sent again, it counts once
		expect.OK(b, h.Requeue(b.ctx, resume.ReasonShutdown, entries...))
	case "crash":
		expect.OK(b, h.Checkpoint(b.ctx, entries))
		b.die()
	case "death in the drain":
		b.mark(h, resume.ReasonShutdown)
		expect.OK(b, h.Checkpoint(b.ctx, entries))
		b.die()
	}
}

// What kills its worker before the agent has started is given up as well, though
// nothing was interrupted: the session keeps its transcript.
func TestB43_DeadlyBeforeTheStart(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]int{"default": 0, "2": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, func(c *sq.Config) { c.StuckLimit = limit })
			b.say("first")
			h := b.start()
			id := h.Turn().SessionID
			b.finish(h)
			b.sayAll("a", "b")
			deaths := max(limit, 3)
			if limit > 0 {
				deaths = limit
			}
			for n := range deaths {
				h := b.claim()
				turn := h.Turn()
				expect.Equal(t, "message", turn.Message.ID, "a")
				expect.Equal(t, "redelivered", turn.Redelivered, n)
				b.renew(h)
				b.die()
			}
			turn := b.claim().Turn()
			expect.Equal(t, "next message", turn.Message.ID, "b")
			expect.Equal(t, "session id", turn.SessionID, id)
			expect.Equal(t, "resume", turn.Resume, "")
			o := b.outcome("a")
			expect.Equal(t, "status", o.Status, session.StatusFailed)
			if want := fmt.Sprintf("its worker died %d times", deaths); !strings.Contains(o.Error, want) {
				t.Errorf("error %q, want %q in it", o.Error, want)
			}
			expect.Equal(t, "state", b.state("a"), "archived")
			expect.Equal(t, "record", b.resume(), resume.Record{})
		})
	}
}

// Drains are no deaths.
func TestB43_DrainsBeforeTheStart(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.say("a")
	for range 5 {
		h := b.claim()
		expect.OK(t, b.c.Mark(b.ctx, []*sq.Claim{h}, resume.ReasonShutdown)[0].Err)
		expect.OK(t, h.Requeue(b.ctx, resume.ReasonShutdown))
	}
	expect.List(t, "runs", b.drain(), "a")
}

// spoilt are partials that this version cannot read. F stands for the fence of
// the turn that left it.
var spoilt = map[string]string{
	"empty":             ``,
	"no JSON":           `{"v":1,"fence":F,"mess`,
	"bytes":             "\x00\xff\xfe",
	"null":              `null`,
	"a number":          `7`,
	"a list":            `[]`,
	"no fields":         `{}`,
	"no entries":        `{"v":1,"fence":F,"turn":"t","messages":["a"]}`,
	"entries null":      `{"v":1,"fence":F,"turn":"t","messages":["a"],"entries":null}`,
	"entries a text":    `{"v":1,"fence":F,"turn":"t","messages":["a"],"entries":"x"}`,
	"entries an object": `{"v":1,"fence":F,"turn":"t","messages":["a"],"entries":{"1":"x"}}`,
	"entries of lists":  `{"v":1,"fence":F,"turn":"t","messages":["a"],"entries":[["x"],1,null]}`,
	"messages a text":   `{"v":1,"fence":F,"turn":"t","messages":"a","entries":[]}`,
	"an older version":  `{"v":0,"fence":F,"turn":"t","messages":["a"],"entries":["{\"role\":\"assistant\",\"text\":\"x\"}"]}`,
	"no version":        `{"fence":F,"turn":"t","messages":["a"],"entries":["{\"role\":\"assistant\",\"text\":\"x\"}"]}`,
	"a newer version":   `{"v":2,"fence":F,"turn":"t","messages":["a"],"entries":["{\"role\":\"assistant\",\"text\":\"x\"}"]}`,
	"a version's text":  `{"v":"1","fence":F,"turn":"t","messages":["a"],"entries":[]}`,
	"deep":              strings.Repeat("[", 5000),
}
