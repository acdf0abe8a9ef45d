package protocol_test

import (
	"testing"

	"turnstile/internal/protocol"
	"turnstile/pkg/resume"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// The records of an interrupted turn belong to its transcript: after a /new in mid-turn they do not
// apply, however the turn ends.
func TestNewConversationHasNoOldMark(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(b *actors.Bench, h *protocol.Claim){
		"failed": func(b *actors.Bench, h *protocol.Claim) {
			_, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusFailed, Error: "no", Release: true})
			expect.OK(b, err)
		},
		"given back": func(b *actors.Bench, h *protocol.Claim) {
			b.Worker.Mark(b.Ctx, []*protocol.Claim{h}, "drain")
			expect.OK(b, h.Requeue(b.Ctx, "drain", session.Entry{Role: session.RoleUser, Text: "a"}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			b.SayAll("a", "b")
			b.Start()
			b.Die()
			h := b.Start() // it has the mark now
			expect.Equal(t, "mark", h.Turn().Resume, "crash")
			_, err := b.Client.Session(actors.Key).NewTranscript(b.Ctx)
			expect.OK(t, err)
			end(b, h)
			next := b.Start()
			expect.Equal(t, "mark of the new conversation", next.Turn().Resume, "")
			past, err := next.History(b.Ctx)
			expect.OK(t, err)
			if past.Earlier != nil || len(past.Entries) > 0 {
				t.Errorf("the new conversation has %+v", past)
			}
		})
	}
}

// A turn with a rotated transcript leaves nothing to the new one, however it ends: no mark, no
// partial, no count.
func TestRotatedInMidTurn(t *testing.T) {
	t.Parallel()
	ends := map[string]func(b *actors.Bench, h *protocol.Claim){
		"crash": func(b *actors.Bench, _ *protocol.Claim) { b.Die() },
		"drain": func(b *actors.Bench, h *protocol.Claim) {
			expect.OK(b, h.Requeue(b.Ctx, resume.ReasonShutdown, did(h.Turn(), "half")...))
		},
		"marked drain": func(b *actors.Bench, h *protocol.Claim) {
			mark(b, h, resume.ReasonShutdown)
			expect.OK(b, h.Requeue(b.Ctx, ""))
		},
		"marked crash": func(b *actors.Bench, h *protocol.Claim) { mark(b, h, resume.ReasonShutdown); b.Die() },
		"failed attempt": func(b *actors.Bench, h *protocol.Claim) {
			expect.OK(b, h.Retry(b.Ctx, actors.ErrFlaky, 0, 0, did(h.Turn(), "half")...))
		},
	}
	for name, end := range ends {
		for _, earlier := range []string{"first run", "marked before"} {
			t.Run(name+", "+earlier, func(t *testing.T) {
				t.Parallel()
				b := actors.NewBench(t)
				b.Say("a")
				want := resume.Record{}
				h := b.Start()
				if earlier == "marked before" {
					expect.OK(t, actors.Checkpoint(b.Ctx, h, did(h.Turn(), "earlier")))
					b.Die()
					h = b.Start()
					want = resume.Record{Interruptions: 1, Fence: resumeRecord(b).Fence}
				}
				expect.OK(t, actors.Checkpoint(b.Ctx, h, did(h.Turn(), "half")))
				_, err := b.Client.Session(actors.Key).NewTranscript(b.Ctx)
				expect.OK(t, err)
				end(b, h)
				old := h.Turn()
				h = b.Claim()
				turn := h.Turn()
				expect.Equal(t, "message", turn.Message.ID, "a")
				if turn.TranscriptID == old.TranscriptID {
					t.Error("the session id is the old one")
				}
				expect.Equal(t, "resume", turn.Resume, "")
				expect.Equal(t, "a partial from before", historyOf(b, h).Earlier == nil, true)
				expect.Equal(t, "record", resumeRecord(b), want)
			})
		}
	}
}

// A resumed turn is interrupted, and its worker dies at once. The checkpoint of its earlier run is
// kept, as it is when the worker lives.
func TestInterruptOfAResumedTurn(t *testing.T) {
	t.Parallel()
	for name, dies := range map[string]bool{"the worker dies": true, "the worker lives": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			b.Say("a")
			h := b.Start()
			sid := h.Turn().TranscriptID
			expect.OK(t, actors.Checkpoint(b.Ctx, h, did(h.Turn(), "half")))
			b.Die()
			h = b.Start()
			b.Say("urgent", session.ModeInterrupt)
			if dies {
				b.Die()
			} else {
				_, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusInterrupted, Entries: historyOf(b, h).Earlier.Entries, Release: true})
				expect.OK(t, err)
			}
			expect.List(t, "runs", b.Drain(), "urgent")
			expect.Equal(t, "status", b.Outcome("a").Status, session.StatusInterrupted)
			expect.Equal(t, "it is", b.State("a"), "completed")
			expect.List(t, "transcript", b.Transcript(sid), "a", "half", "urgent", "re: urgent")
		})
	}
}
