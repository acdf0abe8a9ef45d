package protocol_test

import (
	"testing"

	sq "turnstile/internal/protocol"
	"turnstile/pkg/resume"
	"turnstile/pkg/session"
	"turnstile/test/expect"
)

// Whatever ends a turn whose session id was rotated meanwhile, the new conversation is
// told nothing of it: no mark, no partial, no count.
func TestRotatedInMidTurn(t *testing.T) {
	t.Parallel()
	ends := map[string]func(b *bench, h *sq.Claim){
		"crash": func(b *bench, _ *sq.Claim) { b.die() },
		"drain": func(b *bench, h *sq.Claim) {
			expect.OK(b, h.Requeue(b.ctx, resume.ReasonShutdown, did(h.Turn(), "half")...))
		},
		"marked drain":   func(b *bench, h *sq.Claim) { b.mark(h, resume.ReasonShutdown); expect.OK(b, h.Requeue(b.ctx, "")) },
		"marked crash":   func(b *bench, h *sq.Claim) { b.mark(h, resume.ReasonShutdown); b.die() },
		"failed attempt": func(b *bench, h *sq.Claim) { expect.OK(b, h.Retry(b.ctx, errFlaky, 0, did(h.Turn(), "half")...)) },
	}
	for name, end := range ends {
		for _, earlier := range []string{"first run", "marked before"} {
			t.Run(name+", "+earlier, func(t *testing.T) {
				t.Parallel()
				b := newBench(t)
				b.say("a")
				want := resume.Record{}
				h := b.start()
				if earlier == "marked before" {
					expect.OK(t, h.Checkpoint(b.ctx, did(h.Turn(), "earlier")))
					b.die()
					h = b.start()
					want = resume.Record{Interruptions: 1, Fence: b.resume().Fence}
				}
				expect.OK(t, h.Checkpoint(b.ctx, did(h.Turn(), "half")))
				_, err := b.client.Rotate(b.ctx, key, "")
				expect.OK(t, err)
				end(b, h)
				old := h.Turn()
				h = b.claim()
				turn := h.Turn()
				expect.Equal(t, "message", turn.Message.ID, "a")
				if turn.SessionID == old.SessionID {
					t.Error("the session id is the old one")
				}
				expect.Equal(t, "resume", turn.Resume, "")
				expect.Equal(t, "a partial from before", b.past(h).Partial == nil, true)
				expect.Equal(t, "record", b.resume(), want)
			})
		}
	}
}

// A turn that is run again and then interrupted, its worker dying at once: what its
// earlier run had stored is kept, as it is when the worker lives.
func TestInterruptOfATurnThatIsRunAgain(t *testing.T) {
	t.Parallel()
	for name, dies := range map[string]bool{"the worker dies": true, "the worker lives": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.say("a")
			h := b.start()
			sid := h.Turn().SessionID
			expect.OK(t, h.Checkpoint(b.ctx, did(h.Turn(), "half")))
			b.die()
			h = b.start()
			b.say("urgent", session.ModeInterrupt)
			if dies {
				b.die()
			} else {
				_, err := h.Finish(b.ctx, sq.End{Status: session.StatusInterrupted, Entries: b.past(h).Partial.Entries, Release: true})
				expect.OK(t, err)
			}
			expect.List(t, "runs", b.drain(), "urgent")
			expect.Equal(t, "status", b.outcome("a").Status, session.StatusInterrupted)
			expect.Equal(t, "it is", b.state("a"), "completed")
			expect.List(t, "transcript", b.transcript(sid), "a", "half", "urgent", "re: urgent")
		})
	}
}
