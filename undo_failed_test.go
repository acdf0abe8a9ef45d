package turnstile_test

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"turnstile/internal/protocol"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// fails ends a turn badly, with what it has done.
func fails(b *actors.Bench, h *protocol.Claim, status session.Status, steered ...string) {
	b.Helper()
	end := b.Done(h)
	for _, id := range steered {
		end.Entries = slices.Insert(end.Entries, len(end.Entries)-1, session.Entry{Role: session.RoleUser, Text: id, Message: id, Turn: h.Turn().ID})
	}
	end.Status, end.Error, end.Release = status, "boom", true
	_, err := h.Finish(b.Ctx, end)
	expect.OK(b, err)
}

// ended are the ends that the transcript's entries have.
func ended(b *actors.Bench) (list []string) {
	b.Helper()
	entries, err := actors.Transcript(b.Ctx, b.Chat(), b.Info().TranscriptID)
	expect.OK(b, err)
	for _, e := range entries {
		if e.Ended != nil {
			list = append(list, e.Text+": "+e.Ended.String())
		}
	}
	return list
}

// A turn that failed or was stopped is the last turn, with its dead letters: /undo removes both, /retry runs its words
// as a new message, and /resume runs the dead letters as another turn.
func TestB75_OfATurnThatFailed(t *testing.T) {
	t.Parallel()
	for status, how := range map[session.Status]string{session.StatusFailed: "failed: boom", session.StatusStopped: "stopped"} {
		for command, then := range map[string]struct {
			reply      string
			left, runs []string // the transcript at once, and after what then runs
			dead       int
		}{
			"/undo":   {"(3 entries): bad", []string{"good", "re: good"}, []string{"good", "re: good"}, 0},
			"/retry":  {"Running again: bad", []string{"good", "re: good"}, []string{"good", "re: good", "bad\n\nworse", "re: bad\n\nworse"}, 0},
			"/resume": {"Rerunning 2 messages", []string{"good", "re: good", "bad", "worse", "re: bad"}, []string{"good", "re: good", "bad", "worse", "re: bad", "bad", "re: bad", "worse", "re: worse"}, 0},
		} {
			t.Run(string(status)+command, func(t *testing.T) {
				t.Parallel()
				actors.OnceAndTwice(t, func(t *testing.T, b *actors.Bench) {
					b.Say("good")
					b.Drain()
					b.Say("bad")
					h := b.Start()
					b.Say("worse", session.ModeSteer)
					_, err := h.Steer(b.Ctx)
					expect.OK(t, err)
					if status == session.StatusStopped {
						b.Replies("/stop", "Stopping")
					}
					fails(b, h, status, "worse")
					expect.List(t, "ends", ended(b), "re: bad: "+how)
					expect.Equal(t, "dead letters", len(b.Dead(actors.Key)), 2)
					b.Replies(command, then.reply)
					expect.List(t, "transcript", b.Transcript(b.Info().TranscriptID), then.left...)
					expect.Equal(t, "dead letters then", len(b.Dead(actors.Key)), 0)
					b.Drain()
					expect.List(t, "transcript then", b.Transcript(b.Info().TranscriptID), then.runs...)
					b.NothingLeft("at the end")
				})
			})
		}
	}
}

// What waited during a turn that was stopped with it is not the last turn.
func TestB75_StoppedWithItsQueue(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("bad")
	h := b.Start()
	b.Say("waiting")
	b.Replies("/stop", "1 waiting")
	fails(b, h, session.StatusStopped)
	b.Replies("/undo", ": bad")
	b.Replies("/undo", "/retry runs it again")
	b.Replies("/retry", "Running again: waiting")
}

// A message that was given up after its workers' deaths, and has no entries, is run again by /retry, and not the turn before it.
func TestB75_GivenUp(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t, func(c *protocol.Config) { c.StuckLimit = 1 })
	b.Say("good")
	b.Drain()
	b.Say("bad")
	h := b.Start()
	b.Renew(h)
	b.Die()
	b.Doubt()
	b.EndDies()
	b.ClaimNothing("it is given up")
	expect.Equal(t, "dead letters", len(b.Dead(actors.Key)), 1)
	b.Replies("/undo", "/retry runs it again")
	b.Replies("/retry", "Running again: bad")
	expect.Equal(t, "dead letters then", len(b.Dead(actors.Key)), 0)
	b.Drain()
	expect.List(t, "the new transcript", b.Transcript(b.Info().TranscriptID), "bad", "re: bad")
}

// So is one whose turn a newer message ended: not the turn before it.
func TestB75_InterruptedAndItsEndDied(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("good")
	b.Drain()
	b.Say("bad")
	expect.OK(t, b.Start().Park(b.Ctx, protocol.Parking{Failed: errors.New("no"), Wait: time.Hour}))
	b.Say("newer", session.ModeInterrupt)
	b.EndDies()
	expect.OK(t, b.Chat().CancelTurn(b.Ctx, "newer"))
	b.ClaimNothing("all has ended")
	b.Replies("/retry", "Running again: bad")
}

// The steps of a message that /retry runs again have the same idempotency keys, as after /resume.
func TestRetryKeepsTheOrigin(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	write := func(h *protocol.Claim) string {
		origin, err := h.Journal(b.Ctx, protocol.JournalWrite{
			HasSteps: true, Messages: actors.MessageIDs(h), Entries: map[int]session.Entry{}, Steps: map[string]string{"s": `{"state":"ended"}`},
		})
		expect.OK(t, err)
		return origin
	}
	b.Say("pay")
	h := b.Start()
	first := write(h)
	for _, command := range []string{"/resume", "/retry"} {
		fails(b, h, session.StatusFailed)
		b.Replies(command, "")
		h = b.Start()
		expect.Equal(t, "what is carried over"+command, h.Turn().Carries, "")
		expect.Equal(t, "the origin after "+command, write(h), first)
	}
}

// An entry's reason is the sentence for users, and not what operators read.
func TestEndedSaysWhatUsersMayRead(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("bad")
	h := b.Start()
	end := b.Done(h)
	end.Status, end.Error, end.Detail = session.StatusFailed, "the agent failed", "key=hunter2"
	_, err := h.Finish(b.Ctx, end)
	expect.OK(t, err)
	lines := b.Redis.LRange(b.Ctx, b.Keys.Transcript(h.Turn().TranscriptID), 0, -1).Val()
	var last struct{ Ended json.RawMessage }
	expect.OK(t, json.Unmarshal([]byte(lines[len(lines)-1]), &last))
	expect.Equal(t, "ended", string(last.Ended), `{"status":"failed","why":"the agent failed"}`)
}
