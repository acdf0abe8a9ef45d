package worker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	sq "turnstile/internal/protocol"
	"turnstile/pkg/resume"
	"turnstile/pkg/session"
	"turnstile/pkg/worker"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

func crashSuspends(s *setup) { s.Crash = worker.CrashSuspend }

// drainFor ends a worker for a reason.
func drainFor(w *worker.Worker, reason worker.Reason) <-chan bool {
	done := make(chan bool, 1)
	go func() {
		w.Drain(context.Background(), reason)
		done <- true
	}()
	return done
}

func (r *rig) resumeRecord(key string) resume.Record {
	r.Helper()
	rec, err := resume.Read(context.WithoutCancel(r.ctx), r.rdb, key)
	expect.OK(r, err)
	return rec
}

// unmarked checks that there is no mark of an interrupted turn.
func (r *rig) unmarked(key, when string) {
	r.Helper()
	expect.Equal(r, "the resume record "+when, r.resumeRecord(key), resume.Record{})
}

// startOf returns the start event of the turn with an ID.
func (r *rig) startOf(turn string) session.Event {
	r.Helper()
	return r.awaitEvent("the turn's start", func(e session.Event) bool { return e.Type == session.EventTurnStarted && e.Turn == turn })
}

// dies plays a worker that takes the session's next turn, does something and dies. There must be
// no other worker. The next one checks the session at once.
func (r *rig) dies(texts ...string) sq.ClaimedTurn {
	r.Helper()
	c, err := actors.NewConsumer(r.rdb, sq.Config{Worker: r.key + "/mortal", Retention: time.Hour})
	expect.OK(r, err)
	holds, err := c.Claim(r.ctx, []string{r.key})
	expect.OK(r, err)
	if len(holds) != 1 {
		r.Fatal("there was nothing to die of")
	}
	turn := holds[0].Turn()
	expect.OK(r, holds[0].Promote(r.ctx))
	if len(texts) > 0 {
		entries := []session.Entry{{Role: session.RoleUser, Text: turn.Message.Text, Message: turn.Message.ID, Turn: turn.ID}}
		for _, text := range texts {
			entries = append(entries, session.Entry{Role: session.RoleAssistant, Text: text, Turn: turn.ID})
		}
		entries[len(entries)-1].Interrupted = true
		expect.OK(r, actors.Checkpoint(r.ctx, holds[0], entries))
	}
	expect.OK(r, r.rdb.Del(r.ctx, r.k.Sentinel()).Err())
	r.wake()
	return turn
}

// interruptTurn runs the session's next turn on a worker that drains.
func (r *rig) interruptTurn(id string, reason worker.Reason, texts ...string) *act {
	r.Helper()
	s := newStage()
	w := r.worker(s, drainTimeout(0), slots(1))
	a := s.next(r, id)
	for _, text := range texts {
		a.text(text)
	}
	expect.Received(r, "the end of the drain", drainFor(w, reason))
	return a
}

func TestB22_PendingKeepsTheIdentity(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.say("m1", "hello")
	a := r.interruptTurn("m1", worker.ReasonShutdown, "half")
	s := newStage()
	r.worker(s)
	b := s.next(t, "m1")
	expect.Equal(t, "session id", b.TranscriptID, a.TranscriptID)
	e := r.startOf(b.ID)
	expect.Equal(t, "reset", e.Reset, "")
	expect.Equal(t, "resume", e.Resume, resume.ReasonShutdown)
	b.reply("ok")
	expect.Equal(t, "session id of the end", r.ends("m1", session.StatusDone).TranscriptID, a.TranscriptID)
}

// The mark stays while the turn runs that got its note, and also if that turn fails: then the
// next turn gets the note, too. The first turn that finishes clears it.
func TestB23_OnlyAFinishedTurnClears(t *testing.T) {
	t.Parallel()
	for name, share := range map[string]int{"under one claim": 10, "claim by claim": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			for i := 1; i <= 3; i++ {
				r.say(fmt.Sprint("m", i), "hello")
			}
			r.interruptTurn("m1", worker.ReasonRestart)
			s := newStage()
			r.worker(s, slots(1), with(func(o *worker.Config) { o.ShareTurns(share) }))
			for i := range 2 {
				a := s.next(t, fmt.Sprint("m", i+1))
				if !strings.Contains(a.Note, "a gateway restart") {
					t.Errorf("turn %d: note %q", i, a.Note)
				}
				if rec := r.resumeRecord(r.key); !rec.Pending || rec.Interruptions != 1 {
					t.Errorf("turn %d: %+v", i, rec)
				}
				if i == 0 {
					a.fail(errors.New("no"))
				} else {
					a.reply("ok")
				}
			}
			a := s.next(t, "m3")
			expect.Equal(t, "note after a finished turn", a.Note, "")
			r.unmarked(r.key, "after a finished turn")
			a.reply("ok")
			r.ends("m3", session.StatusDone)
		})
	}
}

func TestB24_ASuspendedSessionBeginsAnew(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newStage()
	w := r.worker(s)
	r.say("m1", "hello")
	a := s.next(t, "m1")
	a.reply("one")
	r.ends("m1", session.StatusDone)
	r.free("after the turn")
	suspended, err := resume.Suspend(r.ctx, r.rdb, r.key)
	expect.OK(t, err)
	expect.Equal(t, "suspended", suspended, true)
	r.say("m2", "again")
	r.begunAnew(s.next(t, "m2"), a.TranscriptID)
	expect.Equal(t, "suspensions", w.Recovered().Suspended, 1)
}

func TestB25_MarkedAndSuspendedBeginsAnew(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.say("m1", "hello")
	a := r.interruptTurn("m1", worker.ReasonShutdown, "half")
	_, err := resume.Suspend(r.ctx, r.rdb, r.key)
	expect.OK(t, err)
	expect.Equal(t, "pending", r.resumeRecord(r.key).Pending, true)
	s := newStage()
	r.worker(s)
	r.begunAnew(s.next(t, "m1"), a.TranscriptID)
}

// begunAnew checks a turn without anything of the old transcript, and ends it.
func (r *rig) begunAnew(a *act, old string) {
	r.Helper()
	if a.TranscriptID == old {
		r.Error("the session id is the old one")
	}
	expect.Equal(r, "history", len(a.History), 0)
	expect.Equal(r, "note", a.Note, "")
	e := r.startOf(a.ID)
	expect.Equal(r, "reset", e.Reset, "suspended")
	expect.Equal(r, "resume", e.Resume, "")
	a.reply("anew")
	r.ends(a.Messages[0].ID, session.StatusDone)
	expect.List(r, "the new transcript", r.transcript(r.key), "user "+a.Messages[0].Text, "assistant anew")
	r.unmarked(r.key, "after the turn")
}

func TestB26_MarkedIsNotSuspended(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.say("m1", "hello")
	a := r.interruptTurn("m1", worker.ReasonShutdown, "half")
	s := newStage()
	w := r.worker(s, crashSuspends)
	b := s.next(t, "m1")
	expect.Equal(t, "session id", b.TranscriptID, a.TranscriptID)
	expect.Equal(t, "recovered", w.Recovered(), worker.Recovered{Resumed: 1})
	b.reply("ok")
	r.ends("m1", session.StatusDone)
}

func TestB27_UnmarkedIsSuspended(t *testing.T) {
	t.Parallel()
	t.Run("suspend", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.say("m1", "hello")
		dead := r.dies("half")
		s := newStage()
		w := r.worker(s, crashSuspends)
		a := s.next(t, "m1")
		expect.Equal(t, "redelivered", a.Redelivered, true)
		r.begunAnew(a, dead.TranscriptID)
		expect.Equal(t, "recovered", w.Recovered(), worker.Recovered{Suspended: 1})
	})
	t.Run("resume", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.say("m1", "hello")
		dead := r.dies("half")
		s := newStage()
		w := r.worker(s)
		a := s.next(t, "m1")
		expect.Equal(t, "session id", a.TranscriptID, dead.TranscriptID)
		expect.Equal(t, "reason", r.resumeRecord(r.key).Reason, resume.ReasonCrash)
		expect.List(t, "history", brief(a.History), "user hello", "assistant half (interrupted)")
		if !strings.Contains(a.Note, "a gateway interruption") {
			t.Errorf("note %q", a.Note)
		}
		expect.Equal(t, "recovered", w.Recovered(), worker.Recovered{Resumed: 1})
		a.reply("ok")
		r.ends("m1", session.StatusDone)
		r.unmarked(r.key, "after the turn")
	})
}

// After three interruptions in a row, of any kind, the session begins a new transcript.
func TestB43_ThreeInARow(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.say("m1", "hello")
	a := r.interruptTurn("m1", worker.ReasonShutdown, "one")
	dead := r.dies("two")
	expect.Equal(t, "session id of the second turn", dead.TranscriptID, a.TranscriptID)
	c := r.interruptTurn("m1", worker.ReasonRestart, "three")
	expect.Equal(t, "session id of the third turn", c.TranscriptID, a.TranscriptID)
	rec := r.resumeRecord(r.key)
	if !rec.Pending || !rec.Suspended || rec.Interruptions != 3 {
		t.Errorf("after three interruptions: %+v", rec)
	}
	s := newStage()
	w := r.worker(s)
	r.begunAnew(s.next(t, "m1"), a.TranscriptID)
	expect.Equal(t, "recovered", w.Recovered(), worker.Recovered{Suspended: 1})
}

// The third interruption is a crash: the message becomes a dead letter, and the next one begins a
// new transcript.
func TestB43_ThirdIsACrash(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.say("m1", "hello")
	a := r.interruptTurn("m1", worker.ReasonShutdown, "one")
	r.interruptTurn("m1", worker.ReasonRestart, "two")
	r.dies("three")
	s := newStage()
	r.worker(s)
	o := r.ends("m1", session.StatusFailed)
	if !strings.Contains(o.Error, "3 turns in a row") {
		t.Errorf("error %q", o.Error)
	}
	r.archivedAs("m1")
	s.empty(t)
	r.say("m2", "on")
	r.begunAnew(s.next(t, "m2"), a.TranscriptID)
}

func TestB45_AFinishedTurnClearsTheMarkAndItsCounter(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.say("m1", "hello")
	r.dies("one")
	r.interruptTurn("m1", worker.ReasonShutdown, "two")
	expect.Equal(t, "interruptions", r.resumeRecord(r.key).Interruptions, 2)
	s := newStage()
	r.worker(s)
	a := s.next(t, "m1")
	expect.Equal(t, "interruptions in the turn", r.resumeRecord(r.key).Interruptions, 2)
	a.reply("ok")
	r.ends("m1", session.StatusDone)
	r.unmarked(r.key, "after the turn")
	expect.Equal(t, "keys", r.rdb.Exists(r.ctx, r.k.Resume(), r.k.Journal()).Val(), 0)
	r.say("m2", "again")
	b := s.next(t, "m2")
	expect.Equal(t, "note", b.Note, "")
	b.reply("ok")
	r.ends("m2", session.StatusDone)
}
