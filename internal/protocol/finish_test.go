package protocol_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"turnstile/internal/protocol"
	"turnstile/pkg/resume"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// stepped stores a step behind so many items of the turn's output, and the events of the last one with it.
func stepped(b *actors.Bench, h *protocol.Claim, keeps int) {
	b.Helper()
	turn := h.Turn()
	w := protocol.JournalWrite{
		Entries: map[int]session.Entry{}, Count: 1 + keeps, HasSteps: true, Closed: 1 + keeps, Progress: true, Messages: actors.MessageIDs(h),
		Steps: map[string]string{fmt.Sprint(keeps): `{"state":"ended"}`}, Items: keeps, Keeps: keeps,
		Events: []session.Event{{Type: session.EventText, Turn: turn.ID, Text: fmt.Sprint("item ", keeps)}},
	}
	for i := range w.Count {
		w.Entries[i] = session.Entry{Role: session.RoleAssistant, Text: "item", Turn: turn.ID}
	}
	w.Entries[0] = did(turn)[0]
	_, err := h.Journal(b.Ctx, w)
	expect.OK(b, err)
}

// Followers learn from which run a turn goes on, and how many items of the output since then stand: at each way
// in which a run is interrupted, and when a run died before its first event.
func TestFollowersLearnWhatStands(t *testing.T) {
	t.Parallel()
	said := func(e session.Event) string {
		return fmt.Sprintf("%s %s %s %d", e.Type, e.Turn, e.Continues, e.Keeps)
	}
	again := func(b *actors.Bench, h *protocol.Claim, kind session.EventType) {
		b.Helper()
		list := eventsAbout(b, kind, "a")
		expect.Equal(b, string(kind), said(list[len(list)-1]), fmt.Sprintf("%s %s  %d", kind, h.Turn().ID, h.Turn().Keeps+1))
	}
	ways := map[string]func(b *actors.Bench, h *protocol.Claim){
		"crash": func(b *actors.Bench, _ *protocol.Claim) { b.Die() },
		"drain": func(b *actors.Bench, h *protocol.Claim) {
			expect.OK(b, h.Park(b.Ctx, protocol.Parking{Interrupted: "shutdown_timeout"}))
			again(b, h, session.EventTurnRequeued)
		},
		"failure": func(b *actors.Bench, h *protocol.Claim) {
			expect.OK(b, h.Park(b.Ctx, protocol.Parking{Failed: errors.New("no"), Wait: time.Millisecond}))
			again(b, h, session.EventTurnRetry)
			b.Pass(10 * time.Millisecond)
		},
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			b.Say("a")
			h := b.Start()
			first := h.Turn().ID
			expect.Equal(t, "the first run goes on from", h.Turn().Continues, "")
			stepped(b, h, 1)
			way(b, h)

			second := b.Start()
			expect.Equal(t, "the second run", fmt.Sprint(second.Turn().Continues, " ", second.Turn().Keeps), first+" 1")
			stepped(b, second, 2)
			way(b, second)

			third := b.Start() // it dies before its first event
			b.Die()
			fourth := b.Start()
			expect.Equal(t, "the fourth run", fmt.Sprint(fourth.Turn().Continues, " ", fourth.Turn().Keeps), first+" 2")
			b.Finish(fourth)
			expect.Equal(t, "outcome", b.Outcome("a").Continues, first)
			var got []string
			for _, e := range eventsAbout(b, session.EventTurnStarted, "a") {
				got = append(got, said(e))
			}
			start := func(h *protocol.Claim, continues string, keeps int) string {
				return said(session.Event{Type: session.EventTurnStarted, Turn: h.Turn().ID, Continues: continues, Keeps: keeps})
			}
			expect.List(t, "starts", got, fmt.Sprintf("turn_started %s  0", first), start(second, first, 1), start(third, first, 2), start(fourth, first, 2))
		})
	}
}

// A turn that is begun to end as interrupted keeps all of its output. One whose agent begins again, and the next
// message's, keep nothing.
func TestWhatFollowersKeepAtAnEnd(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	h := b.Start()
	first := h.Turn().ID
	stepped(b, h, 3)
	b.Say("b", session.ModeInterrupt)
	b.Die()
	claims, err := b.Worker.Claim(b.Ctx, []string{actors.Key})
	if err != nil || len(claims) != 1 {
		t.Fatal(claims, err)
	}
	ends := claims[0]
	expect.Equal(t, "it ends", ends.Turn().Ends, protocol.ErrInterruptRequested)
	if turn := ends.Turn(); turn.Continues != first || turn.Keeps != 3 {
		t.Errorf("it goes on from %q with %d items", turn.Continues, turn.Keeps)
	}
	more, err := ends.Finish(b.Ctx, protocol.End{Status: session.StatusInterrupted, Error: "interrupted by a newer message"})
	expect.OK(t, err)
	expect.Equal(t, "the next turn", more, true)
	expect.Equal(t, "it goes on from", ends.Turn().Continues, "")

	stepped(b, ends, 1)
	b.Die()
	anew := b.Claim()
	anew.BeginAgain()
	b.Finish(anew)
	expect.Equal(t, "outcome", b.Outcome("b").Continues, "")
	starts := eventsAbout(b, session.EventTurnStarted, "b")
	last := starts[len(starts)-1]
	expect.Equal(t, "the start of an agent that begins again", fmt.Sprint(last.Continues, last.Keeps), "0")
}

// A turn goes on in its own transcript after a /new in mid-turn, however it is left. To the new transcript it leaves
// nothing: no mark, no journal.
func TestRotatedInMidTurn(t *testing.T) {
	t.Parallel()
	ends := map[string]func(b *actors.Bench, h *protocol.Claim){
		"crash": func(b *actors.Bench, _ *protocol.Claim) { b.Die() },
		"drain": func(b *actors.Bench, h *protocol.Claim) {
			expect.OK(b, h.Park(b.Ctx, protocol.Parking{Interrupted: resume.ReasonShutdown}))
		},
		"marked drain": func(b *actors.Bench, h *protocol.Claim) {
			mark(b, h, resume.ReasonShutdown)
			expect.OK(b, h.Park(b.Ctx, protocol.Parking{Interrupted: ""}))
		},
		"marked crash": func(b *actors.Bench, h *protocol.Claim) { mark(b, h, resume.ReasonShutdown); b.Die() },
		"failed attempt": func(b *actors.Bench, h *protocol.Claim) {
			expect.OK(b, h.Park(b.Ctx, protocol.Parking{Failed: actors.ErrFlaky}))
		},
	}
	for name, end := range ends {
		for _, well := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, then well %v", name, well), func(t *testing.T) {
				t.Parallel()
				b := actors.NewBench(t)
				b.SayAll("a", "b")
				h := b.Start()
				old := h.Turn().TranscriptID
				expect.OK(t, actors.Checkpoint(b.Ctx, h, did(h.Turn(), "half")))
				id, err := b.Client.Session(actors.Key).NewTranscript(b.Ctx)
				expect.OK(t, err)
				end(b, h)
				h = b.Start()
				expect.Equal(t, "message", h.Turn().Message.ID, "a")
				expect.Equal(t, "its transcript", h.Turn().TranscriptID, old)
				expect.Equal(t, "it has its journal", historyOf(b, h).Earlier != nil, true)
				expect.Equal(t, "it has a mark", h.Turn().Resume != "", name != "failed attempt")
				interruptions := resumeRecord(b).Interruptions
				if well {
					interruptions = 0
					b.Finish(h)
				} else {
					_, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusFailed, Error: "no", Release: true})
					expect.OK(t, err)
					h = b.Start()
				}
				expect.Equal(t, "the next transcript", h.Turn().TranscriptID, id)
				expect.Equal(t, "its mark", h.Turn().Resume, "")
				expect.Equal(t, "its journal", historyOf(b, h).Earlier == nil, true)
				expect.Equal(t, "interruptions", resumeRecord(b).Interruptions, interruptions)
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

// Most sessions are idle, so finish deletes fields that only a turn needs, on both of its paths.
// The name of a worker that keeps agents warm stays: senders notify it of the next message first.
func TestIdleSessionKeepsLittle(t *testing.T) {
	t.Parallel()
	for name, warm := range map[string]bool{"cold": false, "warm": true} {
		for path, renewed := range map[string]bool{"fast": false, "full": true} {
			t.Run(name+" "+path, func(t *testing.T) {
				t.Parallel()
				b := actors.NewBench(t, func(c *protocol.Config) { c.Warm = warm })
				has := func(field string) bool { return b.Redis.HExists(b.Ctx, b.Keys.Run(), field).Val() }
				for _, text := range []string{"a", "b"} {
					b.Say(text)
					h := b.Claim()
					if renewed {
						b.Renew(h)
					}
					for _, field := range []string{"token", "started_at", "worker"} {
						expect.Equal(t, field+" in the turn of "+text, has(field), true)
					}
					expect.Equal(t, "more", b.Finish(h), false)
					for _, field := range []string{"token", "started_at", "done"} {
						expect.Equal(t, field+" after the turn of "+text, has(field), false)
					}
					expect.Equal(t, "worker after the turn of "+text, has("worker"), warm)
				}
			})
		}
	}
}
