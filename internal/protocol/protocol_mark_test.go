package protocol_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"turnstile/internal/lease"
	sq "turnstile/internal/protocol"
	"turnstile/pkg/resume"
	"turnstile/pkg/session"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// The marks that turns get: pkg/resume has tests of those that are made from outside.

// cuts are the ways in which a running turn is cut off; each leaves the session to
// the next claim. A death has a reason of its own.
var cuts = map[string]func(b *bench, h *sq.Claim, reason string){
	"marked, given back": func(b *bench, h *sq.Claim, reason string) {
		b.mark(h, reason)
		expect.OK(b, h.Requeue(b.ctx, "another reason"))
	},
	"given back":   func(b *bench, h *sq.Claim, reason string) { expect.OK(b, h.Requeue(b.ctx, reason)) },
	"marked, dead": func(b *bench, h *sq.Claim, reason string) { b.mark(h, reason); b.die() },
	"dead":         func(b *bench, _ *sq.Claim, _ string) { b.die() },
}

// eachCut runs a test for each of them.
func eachCut(t *testing.T, test func(t *testing.T, name string, cut func(*bench, *sq.Claim, string))) {
	t.Helper()
	for name, cut := range cuts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, name, cut)
		})
	}
}

func (b *bench) clock() time.Time {
	b.Helper()
	now, err := b.rdb.Time(b.ctx).Result()
	expect.OK(b, err)
	return now
}

// cutOnce is what the record has of one turn that was cut off, but for the time.
func cutOnce(h *sq.Claim, reason string) resume.Record {
	return resume.Record{Pending: true, Reason: reason, Interruptions: 1, Fence: h.Turn().Fence}
}

func TestB15_CutTurnsAreMarked(t *testing.T) {
	t.Parallel()
	eachCut(t, func(t *testing.T, name string, cut func(*bench, *sq.Claim, string)) {
		b := newBench(t)
		b.say("a")
		h, reason := b.start(), resume.ReasonShutdown
		before := b.clock().Truncate(time.Millisecond)
		cut(b, h, reason)
		turn := b.claim().Turn()
		if name == "dead" {
			reason = resume.ReasonCrash
		}
		got := b.resume()
		if after := b.clock(); got.MarkedAt.Before(before) || got.MarkedAt.After(after) {
			t.Errorf("marked at %s, that was from %s to %s", got.MarkedAt, before, after)
		}
		got.MarkedAt, got.Age = time.Time{}, 0
		expect.Equal(t, "record", got, cutOnce(h, reason))
		expect.Equal(t, "what the next turn is told", turn.Resume, reason)
	})
	t.Run("without a reason", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.say("a")
		b.mark(b.start(), "")
		b.die()
		expect.Equal(t, "what the next turn is told", b.claim().Turn().Resume, resume.ReasonRestart)
	})
}

// The first reason stays: whatever ends the turn behind its mark is not another cut.
func TestB16_ReasonOfOnesOwn(t *testing.T) {
	t.Parallel()
	eachCut(t, func(t *testing.T, name string, cut func(*bench, *sq.Claim, string)) {
		b := newBench(t)
		b.say("a")
		h, reason := b.start(), "it rained"
		cut(b, h, reason)
		if name == "dead" {
			reason = resume.ReasonCrash
		}
		expect.Equal(t, "what the next turn is told", b.claim().Turn().Resume, reason)
		expect.Equal(t, "reason", b.resume().Reason, reason)
	})
}

// A session that was erased under a worker stays unknown.
func TestB17_UnknownSessionGetsNoMark(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.say("a")
	h := b.start()
	b.die()
	expect.OK(t, b.client.Erase(b.ctx, key))
	before := b.dump()
	if m := b.c.Mark(b.ctx, []*sq.Claim{h}, resume.ReasonShutdown)[0]; !errors.Is(m.Err, lease.ErrLost) || m.Starting {
		t.Errorf("mark: %+v", m)
	}
	same(t, "a mark", before, b.dump())
	if err := h.Requeue(b.ctx, resume.ReasonShutdown); !errors.Is(err, lease.ErrLost) {
		t.Errorf("requeue: %v", err)
	}
	b.claimNothing("the session is unknown")
	same(t, "a requeue and a claim", before, b.dump())
}

// Whoever cuts it off, what is suspended stays so, and the next turn begins anew.
func TestB18_SuspensionOutlastsTheCut(t *testing.T) {
	t.Parallel()
	for before, marked := range map[string]bool{"unmarked": false, "marked": true} {
		t.Run(before, func(t *testing.T) {
			t.Parallel()
			eachCut(t, func(t *testing.T, name string, cut func(*bench, *sq.Claim, string)) {
				b := newBench(t)
				b.say("a")
				h := b.start()
				if marked { // the turn before
					b.die()
					h = b.start()
				}
				_, err := resume.Suspend(b.ctx, b.rdb, key)
				expect.OK(t, err)
				was := b.resumeFields()
				cut(b, h, resume.ReasonShutdown)
				expect.Equal(t, "record", b.resumeFields(), was)
				turn := b.claim().Turn()
				expect.Equal(t, "message", turn.Message.ID, "a")
				expect.Equal(t, "reset", turn.Reset, "suspended")
				expect.Equal(t, "what the next turn is told", turn.Resume, "")
				if turn.SessionID == h.Turn().SessionID {
					t.Error("the session id is the old one")
				}
			})
		})
	}
}

// resumeFields is the whole record as it is stored.
func (b *bench) resumeFields() string {
	b.Helper()
	return content(b.ctx, b.rdb, b.k.Resume(), "hash")
}

func TestB19_MarkOutlivesRedis(t *testing.T) {
	t.Parallel()
	eachCut(t, func(t *testing.T, name string, cut func(*bench, *sq.Claim, string)) {
		server := redistest.StartServer(t, "--appendonly", "yes", "--appendfsync", "always")
		b := benchOn(t, server.Client())
		b.say("a")
		h := b.start()
		cut(b, h, resume.ReasonShutdown)
		why := resume.ReasonShutdown
		if name == "dead" {
			b.claim() // makes the mark
			b.die()
			why = resume.ReasonCrash
		}
		was := b.resumeFields()
		if !strings.Contains(was, "marked_at") {
			t.Fatalf("there is no mark: %s", was)
		}
		for _, end := range []func(){server.Stop, server.Kill} {
			end()
			server.Start()
			expect.Equal(t, "record", b.resumeFields(), was)
		}
		b.c = newWorker(t, b.rdb, "two")
		turn := b.claim().Turn()
		expect.Equal(t, "session id", turn.SessionID, h.Turn().SessionID)
		expect.Equal(t, "what the next turn is told", turn.Resume, why)
	})
}

// clears are the ways in which a mark goes but for a finished turn's: with the
// conversation that it is about.
var clears = map[string]func(b *bench){
	"a new conversation": func(b *bench) { b.answers("/new", "new conversation") },
	"a turn that ends in a new one": func(b *bench) {
		h := b.start()
		b.answers("/new", "new conversation")
		_, err := h.Finish(b.ctx, sq.End{Status: session.StatusFailed, Error: "no", Release: true})
		expect.OK(b, err)
	},
	"a turn that is given back into a new one": func(b *bench) {
		h := b.start()
		b.answers("/new", "new conversation")
		expect.OK(b, h.Requeue(b.ctx, resume.ReasonShutdown))
	},
}

func TestB20_MarkGoesWithItsConversation(t *testing.T) {
	t.Parallel()
	for name, clears := range clears {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.sayAll("a", "b")
			h := b.start()
			old := h.Turn()
			b.mark(h, resume.ReasonShutdown)
			expect.OK(t, h.Requeue(b.ctx, resume.ReasonShutdown))
			expect.Equal(t, "marked", b.resume().Pending, true)
			clears(b)
			for _, field := range []string{"pending", "reason", "marked_at"} {
				expect.Equal(t, field, b.rdb.HExists(b.ctx, b.k.Resume(), field).Val(), false)
			}
			expect.Equal(t, "what is not the mark's", b.resume(), resume.Record{Interruptions: 1, Fence: old.Fence})
			turn := b.claim().Turn()
			expect.Equal(t, "what the next turn is told", turn.Resume, "")
			expect.Equal(t, "reset", turn.Reset, "")
			if turn.SessionID == old.SessionID {
				t.Error("the session id is the old one")
			}
		})
	}
	t.Run("a finished turn", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.say("a")
		expect.OK(t, b.start().Requeue(b.ctx, resume.ReasonShutdown))
		b.finish(b.start())
		expect.Equal(t, "keys", b.rdb.Exists(b.ctx, b.k.Resume()).Val(), 0)
	})
}

func TestB21_NoMarkToGo(t *testing.T) {
	t.Parallel()
	for name, clears := range clears {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.say("a")
			expect.OK(t, b.rdb.HSet(b.ctx, b.k.Resume(), "interruptions", 2, "fence", 7).Err())
			was := b.resumeFields()
			clears(b)
			expect.Equal(t, "record", b.resumeFields(), was)
		})
		t.Run(name+", never cut off", func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.say("a")
			clears(b)
			expect.Equal(t, "keys", b.rdb.Exists(b.ctx, b.k.Resume()).Val(), 0)
		})
	}
	t.Run("of an unknown session", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.answers("/new", "new conversation")
		expect.Equal(t, "keys", b.rdb.Exists(b.ctx, b.k.Resume()).Val(), 0)
		_, err := b.client.Submit(b.ctx, key, session.Message{ID: "a", Text: "a"})
		expect.OK(t, err)
		expect.Equal(t, "what the first turn is told", b.claim().Turn().Resume, "")
	})
}
