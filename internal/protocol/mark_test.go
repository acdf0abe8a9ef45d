package protocol_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"turnstile"

	"turnstile/internal/chat/receipt"
	"turnstile/internal/protocol"
	"turnstile/internal/protocol/lease"
	"turnstile/pkg/resume"
	"turnstile/pkg/session"
	"turnstile/test/acl"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// The marks that turns get. pkg/resume tests those from outside.

// cuts are the ways to interrupt a running turn. Each leaves the session to the next claim. A death
// has its own reason.
var cuts = map[string]func(b *actors.Bench, h *protocol.Claim, reason string){
	"marked, given back": func(b *actors.Bench, h *protocol.Claim, reason string) {
		mark(b, h, reason)
		expect.OK(b, h.Requeue(b.Ctx, "another reason"))
	},
	"given back":   func(b *actors.Bench, h *protocol.Claim, reason string) { expect.OK(b, h.Requeue(b.Ctx, reason)) },
	"marked, dead": func(b *actors.Bench, h *protocol.Claim, reason string) { mark(b, h, reason); b.Die() },
	"dead":         func(b *actors.Bench, _ *protocol.Claim, _ string) { b.Die() },
}

// eachInterruption runs a test for each of them.
func eachInterruption(t *testing.T, test func(t *testing.T, name string, cut func(*actors.Bench, *protocol.Claim, string))) {
	t.Helper()
	for name, cut := range cuts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, name, cut)
		})
	}
}

func clockOf(b *actors.Bench) time.Time {
	b.Helper()
	now, err := b.Redis.Time(b.Ctx).Result()
	expect.OK(b, err)
	return now
}

// interruptedOnce is the resume record after one interrupted turn, without the time.
func interruptedOnce(h *protocol.Claim, reason string) resume.Record {
	return resume.Record{Pending: true, Reason: reason, Interruptions: 1, Fence: h.Turn().Fence}
}

func TestB15_InterruptedTurnsAreMarked(t *testing.T) {
	t.Parallel()
	eachInterruption(t, func(t *testing.T, name string, cut func(*actors.Bench, *protocol.Claim, string)) {
		b := actors.NewBench(t)
		b.Say("a")
		h, reason := b.Start(), resume.ReasonShutdown
		before := clockOf(b).Truncate(time.Millisecond)
		cut(b, h, reason)
		turn := b.Claim().Turn()
		if name == "dead" {
			reason = resume.ReasonCrash
		}
		got := resumeRecord(b)
		if after := clockOf(b); got.MarkedAt.Before(before) || got.MarkedAt.After(after) {
			t.Errorf("marked at %s, that was from %s to %s", got.MarkedAt, before, after)
		}
		got.MarkedAt, got.Age = time.Time{}, 0
		expect.Equal(t, "record", got, interruptedOnce(h, reason))
		expect.Equal(t, "the next turn's resume reason", turn.Resume, reason)
	})
	t.Run("without a reason", func(t *testing.T) {
		t.Parallel()
		b := actors.NewBench(t)
		b.Say("a")
		mark(b, b.Start(), "")
		b.Die()
		expect.Equal(t, "the next turn's resume reason", b.Claim().Turn().Resume, resume.ReasonRestart)
	})
}

// The first reason stays: the end of a turn after its mark is not a second interruption.
func TestB16_ReasonOfOnesOwn(t *testing.T) {
	t.Parallel()
	eachInterruption(t, func(t *testing.T, name string, cut func(*actors.Bench, *protocol.Claim, string)) {
		b := actors.NewBench(t)
		b.Say("a")
		h, reason := b.Start(), "it rained"
		cut(b, h, reason)
		if name == "dead" {
			reason = resume.ReasonCrash
		}
		expect.Equal(t, "the next turn's resume reason", b.Claim().Turn().Resume, reason)
		expect.Equal(t, "reason", resumeRecord(b).Reason, reason)
	})
}

// A session that was erased under a worker stays unknown.
func TestB17_UnknownSessionGetsNoMark(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	h := b.Start()
	b.Die()
	expect.OK(t, b.Client.Operate(actors.Key).Erase(b.Ctx))
	before := b.Dump()
	if m := b.Worker.Mark(b.Ctx, []*protocol.Claim{h}, resume.ReasonShutdown)[0]; !errors.Is(m.Err, lease.ErrLost) || m.Starting {
		t.Errorf("mark: %+v", m)
	}
	actors.Same(t, "a mark", before, b.Dump())
	if err := h.Requeue(b.Ctx, resume.ReasonShutdown); !errors.Is(err, lease.ErrLost) {
		t.Errorf("requeue: %v", err)
	}
	b.ClaimNothing("the session is unknown")
	actors.Same(t, "a requeue and a claim", before, b.Dump())
}

// A suspended session stays suspended, whatever interrupts its turn, and the next turn begins a new
// transcript.
func TestB18_SuspensionOutlastsTheInterruption(t *testing.T) {
	t.Parallel()
	for before, marked := range map[string]bool{"unmarked": false, "marked": true} {
		t.Run(before, func(t *testing.T) {
			t.Parallel()
			eachInterruption(t, func(t *testing.T, name string, cut func(*actors.Bench, *protocol.Claim, string)) {
				b := actors.NewBench(t)
				b.Say("a")
				h := b.Start()
				if marked { // the turn before
					b.Die()
					h = b.Start()
				}
				_, err := resume.Suspend(b.Ctx, b.Redis, actors.Key)
				expect.OK(t, err)
				was := resumeFields(b)
				cut(b, h, resume.ReasonShutdown)
				expect.Equal(t, "record", resumeFields(b), was)
				turn := b.Claim().Turn()
				expect.Equal(t, "message", turn.Message.ID, "a")
				expect.Equal(t, "reset", turn.Reset, "suspended")
				expect.Equal(t, "the next turn's resume reason", turn.Resume, "")
				if turn.TranscriptID == h.Turn().TranscriptID {
					t.Error("the session id is the old one")
				}
			})
		})
	}
}

// resumeFields is the whole record as it is stored.
func resumeFields(b *actors.Bench) string {
	b.Helper()
	return actors.Content(b.Ctx, b.Redis, b.Keys.Resume(), "hash")
}

func TestB19_MarkOutlivesRedis(t *testing.T) {
	t.Parallel()
	eachInterruption(t, func(t *testing.T, name string, cut func(*actors.Bench, *protocol.Claim, string)) {
		server := acl.Server(t)
		b := actors.BenchOn(t, server.Client())
		b.Say("a")
		h := b.Start()
		cut(b, h, resume.ReasonShutdown)
		why := resume.ReasonShutdown
		if name == "dead" {
			b.Claim() // it makes the mark
			b.Die()
			why = resume.ReasonCrash
		}
		was := resumeFields(b)
		if !strings.Contains(was, "marked_at") {
			t.Fatalf("there is no mark: %s", was)
		}
		for _, end := range []func(){server.Stop, server.Kill} {
			end()
			server.Start()
			expect.Equal(t, "record", resumeFields(b), was)
		}
		b.Worker = actors.NewWorker(t, b.Redis, "two")
		turn := b.Claim().Turn()
		expect.Equal(t, "session id", turn.TranscriptID, h.Turn().TranscriptID)
		expect.Equal(t, "the next turn's resume reason", turn.Resume, why)
	})
}

// clears are the ways in which a mark ends without a finished turn: with its transcript.
var clears = map[string]func(b *actors.Bench){
	"a new conversation": func(b *actors.Bench) { b.Replies("/new", "new conversation") },
	"a turn that ends in a new one": func(b *actors.Bench) {
		h := b.Start()
		b.Replies("/new", "new conversation")
		_, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusFailed, Error: "no", Release: true})
		expect.OK(b, err)
	},
	"a turn that is given back into a new one": func(b *actors.Bench) {
		h := b.Start()
		b.Replies("/new", "new conversation")
		expect.OK(b, h.Requeue(b.Ctx, resume.ReasonShutdown))
	},
}

func TestB20_MarkGoesWithItsConversation(t *testing.T) {
	t.Parallel()
	for name, clears := range clears {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			b.SayAll("a", "b")
			h := b.Start()
			old := h.Turn()
			mark(b, h, resume.ReasonShutdown)
			expect.OK(t, h.Requeue(b.Ctx, resume.ReasonShutdown))
			expect.Equal(t, "marked", resumeRecord(b).Pending, true)
			clears(b)
			for _, field := range []string{"pending", "reason", "marked_at"} {
				expect.Equal(t, field, b.Redis.HExists(b.Ctx, b.Keys.Resume(), field).Val(), false)
			}
			expect.Equal(t, "what is not the mark's", resumeRecord(b), resume.Record{Interruptions: 1, Fence: old.Fence})
			turn := b.Claim().Turn()
			expect.Equal(t, "the next turn's resume reason", turn.Resume, "")
			expect.Equal(t, "reset", turn.Reset, "")
			if turn.TranscriptID == old.TranscriptID {
				t.Error("the session id is the old one")
			}
		})
	}
	t.Run("a finished turn", func(t *testing.T) {
		t.Parallel()
		b := actors.NewBench(t)
		b.Say("a")
		expect.OK(t, b.Start().Requeue(b.Ctx, resume.ReasonShutdown))
		b.Finish(b.Start())
		expect.Equal(t, "keys", b.Redis.Exists(b.Ctx, b.Keys.Resume()).Val(), 0)
	})
}

func TestB21_NoMarkToGo(t *testing.T) {
	t.Parallel()
	for name, clears := range clears {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			b.Say("a")
			expect.OK(t, b.Redis.HSet(b.Ctx, b.Keys.Resume(), "interruptions", 2, "fence", 7).Err())
			was := resumeFields(b)
			clears(b)
			expect.Equal(t, "record", resumeFields(b), was)
		})
		t.Run(name+", never interrupted", func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			b.Say("a")
			clears(b)
			expect.Equal(t, "keys", b.Redis.Exists(b.Ctx, b.Keys.Resume()).Val(), 0)
		})
	}
	t.Run("of an unknown session", func(t *testing.T) {
		t.Parallel()
		b := actors.NewBench(t)
		b.Replies("/new", "new conversation")
		expect.Equal(t, "keys", b.Redis.Exists(b.Ctx, b.Keys.Resume()).Val(), 0)
		_, err := receipt.Input(b.Ctx, b.Client.Session(actors.Key), turnstile.Message{ID: "a", Text: "a"})
		expect.OK(t, err)
		expect.Equal(t, "the first turn's resume reason", b.Claim().Turn().Resume, "")
	})
}

// A drain does not interrupt a turn that was requested to end: the next message's note reports no
// interruption.
func TestMarkOfATurnThatIsToEnd(t *testing.T) {
	t.Parallel()
	for name, ask := range map[string]func(b *actors.Bench){
		"stop":      func(b *actors.Bench) { _, err := b.Client.Session(actors.Key).Stop(b.Ctx); expect.OK(b, err) },
		"interrupt": func(b *actors.Bench) { b.Say("i", session.ModeInterrupt) },
		"rollback":  func(b *actors.Bench) { b.Say("i", session.ModeRollback) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			b.Say("a")
			h := b.Start()
			ask(b)
			mark(b, h, "shutdown_timeout")
			if err := h.Requeue(b.Ctx, "shutdown_timeout"); err == nil {
				t.Error("the turn was given back")
			}
			_, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusStopped, Release: true})
			expect.OK(t, err)
			b.Say("next")
			expect.Equal(t, "resume reason of the next turn", b.Claim().Turn().Resume, "")
		})
	}
}
