package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/rediskey"
	"turnstile/internal/testredis"
	"turnstile/pkg/agent"
	"turnstile/pkg/resume"
	"turnstile/pkg/session"
	sq "turnstile/pkg/sessionqueue"
	"turnstile/pkg/worker"
)

func crashSuspends(s *setup) { s.Queue.CrashPolicy = sq.CrashSuspend }

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
	rec, err := r.client.ResumeRecord(context.WithoutCancel(r.ctx), key)
	must(r, err)
	return rec
}

// unmarked checks that nothing is known of a turn that was cut off.
func (r *rig) unmarked(key, when string) {
	r.Helper()
	equal(r, "the resume record "+when, r.resumeRecord(key), resume.Record{})
}

// started is the event of the start of the turn with an id.
func (r *rig) startOf(turn string) sq.Event {
	r.Helper()
	return r.awaitEvent("the turn's start", func(e sq.Event) bool { return e.Type == sq.EventTurnStarted && e.Turn == turn })
}

// dies plays a worker that takes the session's next turn, does something and dies.
// No other worker may be there. The next one looks at the session at once.
func (r *rig) dies(texts ...string) sq.Turn {
	r.Helper()
	c, err := sq.NewConsumer(r.rdb, sq.Config{Worker: r.key + "/mortal", Retention: time.Hour})
	must(r, err)
	holds, err := c.Claim(r.ctx, []string{r.key})
	must(r, err)
	if len(holds) != 1 {
		r.Fatal("there was nothing to die of")
	}
	turn := holds[0].Turn()
	must(r, holds[0].Promote(r.ctx))
	if len(texts) > 0 {
		entries := []session.Entry{{Role: session.RoleUser, Text: turn.Message.Text, Message: turn.Message.ID, Turn: turn.ID}}
		for _, text := range texts {
			entries = append(entries, session.Entry{Role: session.RoleAssistant, Text: text, Turn: turn.ID})
		}
		entries[len(entries)-1].Interrupted = true
		must(r, holds[0].Checkpoint(r.ctx, entries))
	}
	must(r, r.rdb.Del(r.ctx, r.k.Sentinel()).Err())
	r.announce()
	return turn
}

// cutOff runs the session's next turn on a worker that drains.
func (r *rig) cutOff(id string, reason worker.Reason, texts ...string) *act {
	r.Helper()
	s := newStage()
	w := r.worker(s, drainTimeout(0), slots(1))
	a := s.next(r, id)
	for _, text := range texts {
		a.text(text)
	}
	receive(r, "the end of the drain", drainFor(w, reason))
	return a
}

func TestB22_PendingKeepsTheIdentity(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.say("m1", "hello")
	a := r.cutOff("m1", worker.ReasonShutdown, "half")
	s := newStage()
	r.worker(s)
	b := s.next(t, "m1")
	equal(t, "session id", b.SessionID, a.SessionID)
	e := r.startOf(b.ID)
	equal(t, "reset", e.Reset, "")
	equal(t, "resume", e.Resume, resume.ReasonShutdown)
	b.reply("ok")
	equal(t, "session id of the end", r.ends("m1", sq.StatusDone).SessionID, a.SessionID)
}

// The mark is there while the turn that was told of it runs, and still if that
// fails: then the next one is told too. It goes with the first that finishes.
func TestB23_OnlyAFinishedTurnClears(t *testing.T) {
	t.Parallel()
	for name, share := range map[string]int{"under one claim": 10, "claim by claim": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			for i := 1; i <= 3; i++ {
				r.say(fmt.Sprint("m", i), "hello")
			}
			r.cutOff("m1", worker.ReasonRestart)
			s := newStage()
			r.worker(s, slots(1), with(func(o *worker.Options) { o.ShareTurns = share }))
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
			equal(t, "note after a finished turn", a.Note, "")
			r.unmarked(r.key, "after a finished turn")
			a.reply("ok")
			r.ends("m3", sq.StatusDone)
		})
	}
}

func TestB24_Suspended(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newStage()
	w := r.worker(s)
	r.say("m1", "hello")
	a := s.next(t, "m1")
	a.reply("one")
	r.ends("m1", sq.StatusDone)
	r.free("after the turn")
	suspended, err := resume.Suspend(r.ctx, r.rdb, r.key)
	must(t, err)
	equal(t, "suspended", suspended, true)
	r.say("m2", "again")
	r.begunAnew(s.next(t, "m2"), a.SessionID)
	equal(t, "suspensions", w.Recovered().Suspended, 1)
}

func TestB25_Both(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.say("m1", "hello")
	a := r.cutOff("m1", worker.ReasonShutdown, "half")
	_, err := resume.Suspend(r.ctx, r.rdb, r.key)
	must(t, err)
	equal(t, "pending", r.resumeRecord(r.key).Pending, true)
	s := newStage()
	r.worker(s)
	r.begunAnew(s.next(t, "m1"), a.SessionID)
}

// begunAnew checks a turn that knows nothing of the old transcript, and ends it.
func (r *rig) begunAnew(a *act, old string) {
	r.Helper()
	if a.SessionID == old {
		r.Error("the session id is the old one")
	}
	equal(r, "history", len(a.History), 0)
	equal(r, "note", a.Note, "")
	e := r.startOf(a.ID)
	equal(r, "reset", e.Reset, "suspended")
	equal(r, "resume", e.Resume, "")
	a.reply("anew")
	r.ends(a.Messages[0].ID, sq.StatusDone)
	equalList(r, "the new transcript", r.transcript(r.key), "user "+a.Messages[0].Text, "assistant anew")
	r.unmarked(r.key, "after the turn")
}

func TestB26_MarkedIsNotSuspended(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.say("m1", "hello")
	a := r.cutOff("m1", worker.ReasonShutdown, "half")
	s := newStage()
	w := r.worker(s, crashSuspends)
	b := s.next(t, "m1")
	equal(t, "session id", b.SessionID, a.SessionID)
	equal(t, "recovered", w.Recovered(), worker.Recovered{Resumed: 1})
	b.reply("ok")
	r.ends("m1", sq.StatusDone)
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
		equal(t, "redelivered", a.Redelivered, true)
		r.begunAnew(a, dead.SessionID)
		equal(t, "recovered", w.Recovered(), worker.Recovered{Suspended: 1})
	})
	t.Run("resume", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.say("m1", "hello")
		dead := r.dies("half")
		s := newStage()
		w := r.worker(s)
		a := s.next(t, "m1")
		equal(t, "session id", a.SessionID, dead.SessionID)
		equal(t, "reason", r.resumeRecord(r.key).Reason, resume.ReasonCrash)
		equalList(t, "history", told(a.History), "user hello", "assistant half (interrupted)")
		if !strings.Contains(a.Note, "a gateway interruption") {
			t.Errorf("note %q", a.Note)
		}
		equal(t, "recovered", w.Recovered(), worker.Recovered{Resumed: 1})
		a.reply("ok")
		r.ends("m1", sq.StatusDone)
		r.unmarked(r.key, "after the turn")
	})
}

// What runs when the drain's time is up is marked, each of it.
func TestB36_EveryRunningTurnIsMarked(t *testing.T) {
	t.Parallel()
	testMarks(newRig(t), worker.ReasonShutdown, resume.ReasonShutdown)
}

func TestB37_Restarting(t *testing.T) {
	t.Parallel()
	testMarks(newRig(t), worker.ReasonRestart, resume.ReasonRestart)
}

func testMarks(r *rig, reason worker.Reason, want string) {
	r.Helper()
	s := newStage()
	w := r.worker(s, drainTimeout(10*time.Millisecond), slots(3))
	var acts []*act
	for i := range 3 {
		r.submit(fmt.Sprint(r.key, "-", i), session.Message{ID: "m1", Text: "hello"})
		acts = append(acts, s.next(r, "m1"))
	}
	receive(r, "the end of the drain", drainFor(w, reason))
	for _, a := range acts {
		rec := r.resumeRecord(a.Session)
		if !rec.Pending || rec.Reason != want || rec.Interruptions != 1 || rec.Fence != a.Fence || rec.MarkedAt.IsZero() {
			r.Errorf("after the drain: %+v", rec)
		}
	}
}

// While the mark is on its way nobody is interrupted, and an agent that is finds
// it.
func TestB38_MarkedBeforeTheInterrupt(t *testing.T) {
	t.Parallel()
	for _, reason := range []worker.Reason{worker.ReasonShutdown, worker.ReasonRestart} {
		t.Run(string(reason), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			var f testredis.Faults
			gate := f.Gate(marking)
			s := newStage()
			found := make(chan resume.Record, 3)
			w := r.worker(agentFunc(func(ctx context.Context, turn agent.Turn, emit func(agent.Event)) (agent.Result, error) {
				result, err := s.Run(ctx, turn, emit)
				found <- r.resumeRecord(turn.Session)
				return result, err
			}), faulty(&f), drainTimeout(0), slots(3))
			var acts []*act
			for i := range 3 {
				r.submit(fmt.Sprint(r.key, "-", i), session.Message{ID: "m1", Text: "hello"})
				acts = append(acts, s.next(t, "m1"))
			}
			drained := drainFor(w, reason)
			receive(t, "the marks", gate.Arrived())
			for _, a := range acts {
				if a.ctx.Err() != nil {
					t.Errorf("%s was interrupted before it was marked", a.Session)
				}
			}
			gate.Release()
			for range acts {
				rec := receive(t, "what the agent found", found)
				if !rec.Pending || rec.Reason != string(reason) || rec.Interruptions != 1 || rec.MarkedAt.IsZero() {
					t.Errorf("the interrupted agent found %+v", rec)
				}
			}
			receive(t, "the end of the drain", drained)
		})
	}
}

// A worker process that is told to end marks the same way.
func TestB36_SignalledProcess(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	one := r.process("one", job{TTL: time.Minute, Drain: 50 * time.Millisecond, Checkpoint: 50 * time.Millisecond})
	r.say("m1", "stream=100 tick=50ms abcdefghijklmnopqrstuvwxyz")
	r.awaitPartial("echo: a")
	one.end()
	equal(t, "reason", r.resumeRecord(r.key).Reason, resume.ReasonShutdown)
	s := newStage()
	r.worker(s)
	a := s.next(t, "m1")
	if !strings.Contains(a.Note, "a gateway shutdown") || len(a.History) != 2 || !strings.HasPrefix(a.History[1].Text, "echo: a") {
		t.Errorf("note %q, history %q", a.Note, told(a.History))
	}
	a.reply("ok")
	r.ends("m1", sq.StatusDone)
}

func TestB39_CleanDrain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var f testredis.Faults
	marks := watch(&f, marking)
	s := newStage()
	w := r.worker(s, faulty(&f), drainTimeout(time.Minute), slots(1))
	r.say("m1", "hello")
	a := s.next(t, "m1")
	drained := drain(w)
	r.awaitEvent("the notice", func(e sq.Event) bool { return e.Type == sq.EventNotice })
	if a.ctx.Err() != nil {
		t.Error("the turn was interrupted")
	}
	a.reply("ok")
	receive(t, "the end of the drain", drained)
	r.ends("m1", sq.StatusDone)
	equal(t, "marks", len(marks), 0)
	r.unmarked(r.key, "after the drain")
	equal(t, "keys of the mark and the partial", r.rdb.Exists(r.ctx, r.k.Resume(), r.k.Partial()).Val(), 0)
}

// What counts is what runs when the time is up, not what ran at the drain's begin.
func TestB40_FinishedDuringTheDrain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newStage()
	w := r.worker(s, drainTimeout(time.Hour), slots(2))
	ends, stays := r.key+"-ends", r.key+"-stays"
	r.submit(ends, session.Message{ID: "m1", Text: "hello"})
	a := s.next(t, "m1")
	r.submit(stays, session.Message{ID: "m1", Text: "hello"})
	b := s.next(t, "m1")
	ctx, timeIsUp := context.WithCancel(r.ctx)
	done := make(chan bool, 1)
	go func() {
		w.Drain(ctx, worker.ReasonShutdown)
		done <- true
	}()
	await(t, "the drain", w.Draining)
	a.reply("ok")
	equal(t, "its status", r.outcomeIn(ends, "m1").Status, sq.StatusDone)
	await(t, "its end on the worker", func() bool { return w.Running() == 1 })
	timeIsUp()
	if err := b.cause(t); !strings.Contains(err.Error(), "drains") {
		t.Errorf("the other one ended with %v", err)
	}
	receive(t, "the end of the drain", done)
	r.unmarked(ends, "of what finished")
	equal(t, "mark of what still ran", r.resumeRecord(stays).Reason, resume.ReasonShutdown)
}

// An agent that ends well although it was interrupted has finished.
func TestB40_FinishedInSpiteOfTheInterrupt(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	up := make(chan bool, 1)
	w := r.worker(agentFunc(func(ctx context.Context, _ agent.Turn, _ func(agent.Event)) (agent.Result, error) {
		up <- true
		<-ctx.Done()
		return agent.Result{Text: "just in time"}, nil
	}), drainTimeout(0), slots(1))
	r.say("m1", "hello")
	receive(t, "the turn", up)
	receive(t, "the end of the drain", drain(w))
	equal(t, "reply", r.ends("m1", sq.StatusDone).Reply, "just in time")
	r.unmarked(r.key, "after the drain")
}

// A turn that has no agent yet is given back unmarked, whatever it was about to do
// when the drain's time was up.
func TestB41_StartingDuringTheDrain(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]func(*testredis.Faults) *testredis.Gate{
		"reads its history": func(f *testredis.Faults) *testredis.Gate { return f.Gate(history) },
		"asks for its promotion": func(f *testredis.Faults) *testredis.Gate {
			return f.Gate(func(cmd redis.Cmder) bool { return promoting(cmd) && cmd.Args()[2] == 6 })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			var f testredis.Faults
			gate, marks := at(&f), f.GateReply(marking)
			s := newStage()
			w := r.worker(s, faulty(&f), drainTimeout(0), sentinelTTL(time.Minute), slots(1))
			r.say("m1", "hello")
			receive(t, "the start", gate.Arrived())
			drained := drainFor(w, worker.ReasonRestart)
			// The drain has told Redis, and not yet the turn.
			receive(t, "the drain's verdict", marks.Arrived())
			gate.Release()
			if name == "asks for its promotion" {
				e := r.awaitEvent("a requeued turn", func(e sq.Event) bool { return e.Type == sq.EventTurnRequeued })
				equal(t, "reason", e.Reason, resume.ReasonRestart)
			}
			marks.Release()
			receive(t, "the end of the drain", drained)
			s.empty(t)
			r.unmarked(r.key, "after the drain")
			equal(t, "waiting messages", r.info().Pending, 1)

			two := newStage()
			next := r.worker(two)
			a := two.next(t, "m1")
			equal(t, "redelivered", a.Redelivered, true)
			equal(t, "note", a.Note, "")
			equal(t, "recovered", next.Recovered(), worker.Recovered{})
			a.reply("ok")
			r.ends("m1", sq.StatusDone)
		})
	}
}

// The notice comes once, also to a session whose turn is then interrupted and runs
// on elsewhere.
func TestB42_Banner(t *testing.T) {
	t.Parallel()
	for reason, want := range map[worker.Reason]string{worker.ReasonShutdown: "shutting down", worker.ReasonRestart: "restarting"} {
		t.Run(string(reason), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.submit(r.key+"-idle", session.Message{ID: "m1", Text: "hello"})
			s, two := newStage(), newStage()
			w := r.worker(s, drainTimeout(0), slots(3))
			s.next(t, "m1").reply("ok")
			r.outcomeIn(r.key+"-idle", "m1")
			keys := []string{r.key + "-1", r.key + "-2", r.key + "-3"}
			for _, key := range keys {
				r.submit(key, session.Message{ID: "m1", Text: "hello"})
				s.next(t, "m1")
			}
			receive(t, "the end of the drain", drainFor(w, reason))
			r.worker(two)
			for range keys {
				two.next(t, "m1").reply("ok")
			}
			for _, key := range keys {
				r.outcomeIn(key, "m1")
				var texts, types []string
				for _, e := range r.events(key) {
					types = append(types, e.Type)
					if e.Type == sq.EventNotice {
						texts = append(texts, e.Text)
					}
				}
				if len(texts) != 1 || !strings.Contains(texts[0], want) || !strings.Contains(texts[0], "try to resume") {
					t.Errorf("notices to %s: %q", key, texts)
				}
				equalList(t, "events", types, sq.EventTurnStarted, sq.EventNotice, sq.EventTurnRequeued, sq.EventTurnStarted, sq.EventTurnEnded)
			}
			for _, e := range r.events(r.key + "-idle") {
				if e.Type == sq.EventNotice {
					t.Error("a session in which nothing runs was told")
				}
			}
		})
	}
}

// Whatever cuts it off three times in a row, the session begins anew.
func TestB43_ThreeInARow(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.say("m1", "hello")
	a := r.cutOff("m1", worker.ReasonShutdown, "one")
	dead := r.dies("two")
	equal(t, "session id of the second turn", dead.SessionID, a.SessionID)
	c := r.cutOff("m1", worker.ReasonRestart, "three")
	equal(t, "session id of the third turn", c.SessionID, a.SessionID)
	rec := r.resumeRecord(r.key)
	if !rec.Pending || !rec.Suspended || rec.Interruptions != 3 {
		t.Errorf("after three interruptions: %+v", rec)
	}
	s := newStage()
	w := r.worker(s)
	r.begunAnew(s.next(t, "m1"), a.SessionID)
	equal(t, "recovered", w.Recovered(), worker.Recovered{Suspended: 1})
}

// The third time its worker died: the message is given up, the next one begins
// anew.
func TestB43_ThirdIsACrash(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.say("m1", "hello")
	a := r.cutOff("m1", worker.ReasonShutdown, "one")
	r.cutOff("m1", worker.ReasonRestart, "two")
	r.dies("three")
	s := newStage()
	r.worker(s)
	o := r.ends("m1", sq.StatusFailed)
	if !strings.Contains(o.Error, "3 turns in a row") {
		t.Errorf("error %q", o.Error)
	}
	r.archivedAs("m1")
	s.empty(t)
	r.say("m2", "on")
	r.begunAnew(s.next(t, "m2"), a.SessionID)
}

func TestB45_FinishedTurn(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.say("m1", "hello")
	r.dies("one")
	r.cutOff("m1", worker.ReasonShutdown, "two")
	equal(t, "interruptions", r.resumeRecord(r.key).Interruptions, 2)
	s := newStage()
	r.worker(s)
	a := s.next(t, "m1")
	equal(t, "interruptions in the turn", r.resumeRecord(r.key).Interruptions, 2)
	a.reply("ok")
	r.ends("m1", sq.StatusDone)
	r.unmarked(r.key, "after the turn")
	equal(t, "keys", r.rdb.Exists(r.ctx, r.k.Resume(), r.k.Partial()).Val(), 0)
	r.say("m2", "again")
	b := s.next(t, "m2")
	equal(t, "note", b.Note, "")
	b.reply("ok")
	r.ends("m2", sq.StatusDone)
}

// Another worker goes on at once, with the note and with all that was done; in the
// end the transcript has the user's words once, and each cut where it was.
func TestResumedTurnGoesOn(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	before := newStage()
	w := r.worker(before)
	r.say("m0", "hi")
	before.next(t, "m0").reply("hi yourself")
	r.ends("m0", sq.StatusDone)
	r.drainAtOnce(w)

	old := []string{"user hi", "assistant hi yourself"}
	equalAll := func(what string, got []string, more ...string) {
		t.Helper()
		equalList(t, what, got, append(append([]string{}, old...), more...)...)
	}
	s := newStage()
	w = r.worker(s, drainTimeout(0), slots(1))
	r.say("m1", "count")
	a := s.next(t, "m1")
	equalAll("history", told(a.History))
	equal(t, "note", a.Note, "")
	a.text("one, ")
	a.toolStart("1")
	a.toolEnd("1")
	a.text("two, ")
	a.toolStart("2")
	next := newStage()
	r.worker(next, slots(1))
	receive(t, "the end of the drain", drainFor(w, worker.ReasonRestart))

	done := []string{"user count", "assistant one, ", "tool search", "assistant two, ", "tool search (interrupted)"}
	b := next.next(t, "m1")
	equalAll("history of the next worker", told(b.History), done...)
	if !strings.Contains(b.Note, "a gateway restart") || b.Messages[0].Text != "count" {
		t.Errorf("note %q, text %q", b.Note, b.Messages[0].Text)
	}
	equal(t, "redelivered", b.Redelivered, true)
	equal(t, "a tool without a result", b.History[6].Tool.Output == nil, true)
	equal(t, "whose entries they are", b.History[3].Turn, a.ID)
	b.text("three")
	b.reply("three, done")
	r.ends("m1", sq.StatusDone)
	equalAll("transcript", r.transcript(r.key), append(done, "assistant three, done")...)
	entries, err := r.client.Transcript(r.ctx, r.key, b.SessionID)
	must(t, err)
	equal(t, "whose the last entry is", entries[len(entries)-1].Turn, b.ID)
	for _, line := range r.transcript(r.key) {
		if strings.Contains(line, "System note") {
			t.Errorf("the note was stored: %q", line)
		}
	}
}

// Cut off again before the agent has done anything more, nothing is lost of what it
// had done.
func TestCutOffTwice(t *testing.T) {
	t.Parallel()
	for name, texts := range map[string][]string{"with nothing new": nil, "with more": {"b"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.say("m1", "hello")
			r.cutOff("m1", worker.ReasonShutdown, "a")
			r.cutOff("m1", worker.ReasonShutdown, texts...)
			want := []string{"user hello", "assistant a (interrupted)"}
			if texts != nil {
				want = append(want, "assistant b (interrupted)")
			}
			s := newStage()
			r.worker(s)
			c := s.next(t, "m1")
			equalList(t, "history", told(c.History), want...)
			c.reply("c")
			r.ends("m1", sq.StatusDone)
			equalList(t, "transcript", r.transcript(r.key), append(want, "assistant c")...)
		})
	}
}

// An agent without a start phase is told, too, when there is something to tell.
func TestImmediateAgentIsTold(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newStage()
	w := r.worker(immediate{s.Run}, drainTimeout(0), slots(1))
	r.say("m1", "hello")
	s.next(t, "m1").text("half")
	receive(t, "the end of the drain", drain(w))
	r.worker(immediate{s.Run})
	a := s.next(t, "m1")
	equalList(t, "history", told(a.History), "user hello", "assistant half (interrupted)")
	if !strings.Contains(a.Note, "a gateway shutdown") {
		t.Errorf("note %q", a.Note)
	}
	a.reply("rest")
	r.ends("m1", sq.StatusDone)
	equalList(t, "transcript", r.transcript(r.key), "user hello", "assistant half (interrupted)", "assistant rest")
}

// An old mark keeps the session and what was done, and says nothing.
func TestResumeFreshness(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		limit, age time.Duration
		note       bool
	}{
		"fresh":            {time.Hour, 59 * time.Minute, true},
		"too old":          {time.Hour, 61 * time.Minute, false},
		"any age will do":  {0, 1000 * time.Hour, true},
		"of no known time": {time.Hour, -1, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.say("m1", "hello")
			a := r.cutOff("m1", worker.ReasonShutdown, "half")
			marked := r.rdb.Time(r.ctx).Val().Add(-c.age).UnixMilli()
			if c.age < 0 {
				must(t, r.rdb.HSet(r.ctx, r.k.Resume(), "marked_at", "yesterday").Err())
			} else {
				must(t, r.rdb.HSet(r.ctx, r.k.Resume(), "marked_at", marked).Err())
			}
			s := newStage()
			r.worker(s, with(func(o *worker.Options) { o.ResumeFreshness = c.limit }))
			b := s.next(t, "m1")
			equal(t, "session id", b.SessionID, a.SessionID)
			equalList(t, "history", told(b.History), "user hello", "assistant half (interrupted)")
			equal(t, "a note", b.Note != "", c.note)
			b.reply("ok")
			r.ends("m1", sq.StatusDone)
			r.unmarked(r.key, "after the turn")
		})
	}
}

// A partial that cannot be read, and one that is larger than any message.
func TestStrangePartials(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"garbage":         "\x00 no JSON",
		"a newer version": `{"v":2,"turn":"t","messages":["m1"],"entries":[{"role":"assistant","text":"x"}]}`,
		"unknown entries": `{"v":1,"turn":"t","messages":["m1"],"entries":["{", "7"]}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.say("m1", "hello")
			r.dies("half")
			must(t, r.rdb.Set(r.ctx, r.k.Partial(), text, time.Hour).Err())
			s := newStage()
			r.worker(s)
			a := s.next(t, "m1")
			for _, e := range a.History {
				equal(t, "role of what cannot be read", e.Role, session.RoleSystem)
			}
			equal(t, "a note", a.Note != "", true)
			a.reply("ok")
			r.ends("m1", sq.StatusDone)
			lines := r.transcript(r.key)
			equal(t, "the user's words", lines[0], "user hello")
			equal(t, "the answer", lines[len(lines)-1], "assistant ok")
		})
	}
	t.Run("large", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		output, err := json.Marshal(strings.Repeat("<0123456789abc>\n", 2<<16)) // 2 MiB
		must(t, err)
		s := newStage()
		w := r.worker(s, drainTimeout(0), slots(1), checkpointEvery(10*time.Millisecond))
		r.say("m1", "hello")
		a := s.next(t, "m1")
		a.toolStart("1")
		a.emit(agent.Event{Type: agent.EventToolEnd, CallID: "1", Output: output})
		await(t, "the checkpoint", func() bool { return r.rdb.StrLen(r.ctx, r.k.Partial()).Val() > 2<<20 })
		receive(t, "the end of the drain", drain(w))
		next := newStage()
		r.worker(next)
		b := next.next(t, "m1")
		if len(b.History) != 2 || b.History[1].Tool == nil || string(b.History[1].Tool.Output) != string(output) {
			t.Errorf("the next worker's history has %d entries, and not that output", len(b.History))
		}
		b.reply("ok")
		r.ends("m1", sq.StatusDone)
	})
}

// A turn's time is up while Redis is away for a moment: it is interrupted, and given
// back with its mark and all that it has done when Redis answers again. What waits
// behind it is not lost.
func TestB79_DrainWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	for name, pause := range map[string]bool{"it restarts": false, "it hangs": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := durable(t)
			r := rigOn(t, server.URL(), server.Client())
			s := newStage()
			w := r.worker(s, drainTimeout(0), sentinelTTL(time.Minute), slots(1))
			r.say("m0", "hello")
			a := s.next(t, "m0")
			a.text("half")
			want := []string{"m0", "m0"}
			for i := 1; i <= 10; i++ {
				id := fmt.Sprint("m", i)
				r.say(id, "follow-up "+id)
				want = append(want, id)
			}
			if pause {
				server.Pause()
			} else {
				server.Stop()
			}
			drained := drainFor(w, worker.ReasonRestart)
			await(t, "the drain", w.Draining)
			if pause {
				server.Resume()
			} else {
				if err := a.cause(t); !strings.Contains(err.Error(), "drains") {
					t.Errorf("the turn ended with %v", err)
				}
				server.Start()
			}
			receive(t, "the end of the drain", drained)
			rec := r.resumeRecord(r.key)
			if !rec.Pending || rec.Reason != resume.ReasonRestart || rec.Interruptions != 1 {
				t.Errorf("after the drain: %+v", rec)
			}
			equal(t, "waiting messages", r.info().Pending, 11)

			two := newStage()
			r.worker(two, slots(1), with(func(o *worker.Options) { o.ShareTurns = 100 }))
			b := two.next(t, "m0")
			equalList(t, "history", told(b.History), "user hello", "assistant half (interrupted)")
			b.reply("whole")
			for i := 1; i <= 10; i++ {
				two.next(t, fmt.Sprint("m", i)).reply("ok")
			}
			r.ends("m10", sq.StatusDone)
			equalList(t, "turns", r.starts(r.key), want...)
			equal(t, "entries", len(r.transcript(r.key)), 23)
		})
	}
}

// The mark was sent and its reply lost, as often as the worker tries: it counts
// once.
func TestMarkReplyIsLost(t *testing.T) {
	t.Parallel()
	for name, strike := range map[string]func(*testredis.Faults){
		"lost":  func(f *testredis.Faults) { f.LoseReply(marking, -1) },
		"twice": func(f *testredis.Faults) { f.RunTwice(marking, -1) },
		"never sent": func(f *testredis.Faults) {
			f.FailBefore(marking, -1, errors.New("no such luck"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			var f testredis.Faults
			strike(&f)
			s := newStage()
			w := r.worker(s, faulty(&f), drainTimeout(0), slots(1))
			r.say("m1", "hello")
			s.next(t, "m1").text("half")
			receive(t, "the end of the drain", drain(w))
			rec := r.resumeRecord(r.key)
			if !rec.Pending || rec.Reason != resume.ReasonShutdown || rec.Interruptions != 1 {
				t.Errorf("after the drain: %+v", rec)
			}
			equal(t, "waiting", r.rdb.ZScore(r.ctx, rediskey.Ready, r.key).Err() == nil, true)
		})
	}
}
