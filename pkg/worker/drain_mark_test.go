package worker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"turnstile"

	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/agent"
	"turnstile/pkg/resume"
	"turnstile/pkg/session"
	"turnstile/pkg/worker"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// Every turn that runs when the drain's time is up is marked.
func TestB36_EveryRunningTurnIsMarked(t *testing.T) {
	t.Parallel()
	testMarks(newRig(t), worker.ReasonShutdown, resume.ReasonShutdown)
}

func TestB37_ARestartMarksWithItsReason(t *testing.T) {
	t.Parallel()
	testMarks(newRig(t), worker.ReasonRestart, resume.ReasonRestart)
}

func testMarks(r *rig, reason worker.Reason, want string) {
	r.Helper()
	s := newStage()
	w := r.worker(s, drainTimeout(10*time.Millisecond), slots(3))
	var acts []*act
	for i := range 3 {
		r.send(fmt.Sprint(r.key, "-", i), turnstile.Message{ID: "m1", Text: "hello"})
		acts = append(acts, s.next(r, "m1"))
	}
	expect.Received(r, "the end of the drain", drainFor(w, reason))
	for _, a := range acts {
		rec := r.resumeRecord(a.Session)
		if !rec.Pending || rec.Reason != want || rec.Interruptions != 1 || rec.Fence != a.Fence || rec.MarkedAt.IsZero() {
			r.Errorf("after the drain: %+v", rec)
		}
	}
}

// No agent is interrupted while the mark is in flight, and an interrupted agent finds the mark
// stored.
func TestB38_MarkedBeforeTheInterrupt(t *testing.T) {
	t.Parallel()
	for _, reason := range []worker.Reason{worker.ReasonShutdown, worker.ReasonRestart} {
		t.Run(string(reason), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			var f redistest.Faults
			gate := f.Gate(marking)
			s := newStage()
			found := make(chan resume.Record, 3)
			w := r.worker(agent.Func(func(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
				result, err := s.Run(ctx, turn)
				found <- r.resumeRecord(turn.Session)
				return result, err
			}), faulty(&f), drainTimeout(0), slots(3))
			var acts []*act
			for i := range 3 {
				r.send(fmt.Sprint(r.key, "-", i), turnstile.Message{ID: "m1", Text: "hello"})
				acts = append(acts, s.next(t, "m1"))
			}
			drained := drainFor(w, reason)
			expect.Received(t, "the marks", gate.Arrived())
			for _, a := range acts {
				if a.ctx.Err() != nil {
					t.Errorf("%s was interrupted before it was marked", a.Session)
				}
			}
			gate.Release()
			for range acts {
				rec := expect.Received(t, "what the agent found", found)
				if !rec.Pending || rec.Reason != string(reason) || rec.Interruptions != 1 || rec.MarkedAt.IsZero() {
					t.Errorf("the interrupted agent found %+v", rec)
				}
			}
			expect.Received(t, "the end of the drain", drained)
		})
	}
}

// A worker process that gets a signal marks its turns, too.
func TestB36_SignalledProcess(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	one := r.process("one", job{TTL: time.Minute, Drain: 50 * time.Millisecond, Checkpoint: 50 * time.Millisecond})
	r.say("m1", "stream=100 tick=50ms abcdefghijklmnopqrstuvwxyz")
	r.awaitJournal("echo: a")
	one.end()
	expect.Equal(t, "reason", r.resumeRecord(r.key).Reason, resume.ReasonShutdown)
	s := newStage()
	r.worker(s)
	a := s.next(t, "m1")
	if !strings.Contains(a.Note, "a gateway shutdown") || len(a.History) != 2 || !strings.HasPrefix(a.History[1].Text, "echo: a") {
		t.Errorf("note %q, history %q", a.Note, brief(a.History))
	}
	a.reply("ok")
	r.ends("m1", session.StatusDone)
}

func TestB39_CleanDrain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var f redistest.Faults
	marks := watch(&f, marking)
	s := newStage()
	w := r.worker(s, faulty(&f), drainTimeout(time.Minute), slots(1))
	r.say("m1", "hello")
	a := s.next(t, "m1")
	drained := drain(w)
	r.awaitEvent("the notice", func(e session.Event) bool { return e.Type == session.EventNotice })
	if a.ctx.Err() != nil {
		t.Error("the turn was interrupted")
	}
	a.reply("ok")
	expect.Received(t, "the end of the drain", drained)
	r.ends("m1", session.StatusDone)
	expect.Equal(t, "marks", len(marks), 0)
	r.unmarked(r.key, "after the drain")
	expect.Equal(t, "keys of the mark and the checkpoint", r.rdb.Exists(r.ctx, r.k.Resume(), r.k.Journal()).Val(), 0)
}

// Only turns that run at the end of the drain's timeout are marked, not all that ran at its
// beginning.
func TestB40_FinishedDuringTheDrain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newStage()
	w := r.worker(s, drainTimeout(time.Hour), slots(2))
	ends, stays := r.key+"-ends", r.key+"-stays"
	r.send(ends, turnstile.Message{ID: "m1", Text: "hello"})
	a := s.next(t, "m1")
	r.send(stays, turnstile.Message{ID: "m1", Text: "hello"})
	b := s.next(t, "m1")
	ctx, timeIsUp := context.WithCancel(r.ctx)
	done := make(chan bool, 1)
	go func() {
		w.Drain(ctx, worker.ReasonShutdown)
		done <- true
	}()
	expect.Soon(t, "the drain", w.Draining)
	a.reply("ok")
	expect.Equal(t, "its status", r.outcomeIn(ends, "m1").Status, session.StatusDone)
	expect.Soon(t, "its end on the worker", func() bool { return w.Status().Running == 1 })
	timeIsUp()
	if err := b.cause(t); !strings.Contains(err.Error(), "drains") {
		t.Errorf("the other one ended with %v", err)
	}
	expect.Received(t, "the end of the drain", done)
	r.unmarked(ends, "of what finished")
	expect.Equal(t, "mark of what still ran", r.resumeRecord(stays).Reason, resume.ReasonShutdown)
}

// An agent that ends well although it was interrupted has finished.
func TestB40_FinishedInSpiteOfTheInterrupt(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	up := make(chan bool, 1)
	w := r.worker(agent.Func(func(ctx context.Context, _ *agent.Turn) (agent.Result, error) {
		up <- true
		<-ctx.Done()
		return agent.Result{Text: "just in time"}, nil
	}), drainTimeout(0), slots(1))
	r.say("m1", "hello")
	expect.Received(t, "the turn", up)
	expect.Received(t, "the end of the drain", drain(w))
	expect.Equal(t, "reply", r.ends("m1", session.StatusDone).Reply, "just in time")
	r.unmarked(r.key, "after the drain")
}

// A turn that has no agent yet is requeued without a mark, at whatever point the drain's time is
// up.
func TestB41_StartingDuringTheDrain(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]func(*redistest.Faults) *redistest.Gate{
		"reads its history":      func(f *redistest.Faults) *redistest.Gate { return f.Gate(history) },
		"asks for its promotion": func(f *redistest.Faults) *redistest.Gate { return f.Gate(promoting) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			var f redistest.Faults
			gate, marks := at(&f), f.GateReply(marking)
			s := newStage()
			w := r.worker(s, faulty(&f), drainTimeout(0), sentinelTTL(time.Minute), slots(1))
			r.say("m1", "hello")
			expect.Received(t, "the start", gate.Arrived())
			drained := drainFor(w, worker.ReasonRestart)
			// Redis has the drain's marks, but the turn has not been interrupted yet.
			expect.Received(t, "the drain's verdict", marks.Arrived())
			gate.Release()
			if name == "asks for its promotion" {
				e := r.awaitEvent("a requeued turn", func(e session.Event) bool { return e.Type == session.EventTurnRequeued })
				expect.Equal(t, "reason", e.Reason, resume.ReasonRestart)
			}
			marks.Release()
			expect.Received(t, "the end of the drain", drained)
			s.empty(t)
			r.unmarked(r.key, "after the drain")
			expect.Equal(t, "phase", r.info().Phase, session.PhaseParked)

			two := newStage()
			next := r.worker(two)
			a := two.next(t, "m1")
			expect.Equal(t, "redelivered", a.Redelivered, true)
			expect.Equal(t, "note", a.Note, "")
			expect.Equal(t, "recovered", next.Recovered(), worker.Recovered{})
			a.reply("ok")
			r.ends("m1", session.StatusDone)
		})
	}
}

// The notice comes once, also if the turn is then interrupted and resumed on another worker.
func TestB42_ADrainTellsEachActiveSessionOnce(t *testing.T) {
	t.Parallel()
	for reason, want := range map[worker.Reason]string{worker.ReasonShutdown: "shutting down", worker.ReasonRestart: "restarting"} {
		t.Run(string(reason), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.send(r.key+"-idle", turnstile.Message{ID: "m1", Text: "hello"})
			s, two := newStage(), newStage()
			w := r.worker(s, drainTimeout(0), slots(3))
			s.next(t, "m1").reply("ok")
			r.outcomeIn(r.key+"-idle", "m1")
			keys := []string{r.key + "-1", r.key + "-2", r.key + "-3"}
			for _, key := range keys {
				r.send(key, turnstile.Message{ID: "m1", Text: "hello"})
				s.next(t, "m1")
			}
			expect.Received(t, "the end of the drain", drainFor(w, reason))
			r.worker(two)
			for range keys {
				two.next(t, "m1").reply("ok")
			}
			for _, key := range keys {
				r.outcomeIn(key, "m1")
				var texts, types []string
				for _, e := range r.events(key) {
					types = append(types, string(e.Type))
					if e.Type == session.EventNotice {
						texts = append(texts, e.Text)
					}
				}
				if len(texts) != 1 || !strings.Contains(texts[0], want) || !strings.Contains(texts[0], "try to resume") {
					t.Errorf("notices to %s: %q", key, texts)
				}
				expect.List(t, "events", types, "turn_started", "notice", "turn_requeued", "turn_started", "turn_ended")
			}
			for _, e := range r.events(r.key + "-idle") {
				if e.Type == session.EventNotice {
					t.Error("a session in which nothing runs got the notice")
				}
			}
		})
	}
}

// A drain's time is up while Redis is unreachable for a moment: the turn is interrupted, and
// requeued with its mark and all its entries when Redis is back. No follow-up is lost.
func TestB79_DrainWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	for name, pause := range map[string]bool{"it restarts": false, "it hangs": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, r := durable(t)
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
			expect.Soon(t, "the drain", w.Draining)
			if pause {
				server.Resume()
			} else {
				if err := a.cause(t); !strings.Contains(err.Error(), "drains") {
					t.Errorf("the turn ended with %v", err)
				}
				server.Start()
			}
			expect.Received(t, "the end of the drain", drained)
			rec := r.resumeRecord(r.key)
			if !rec.Pending || rec.Reason != resume.ReasonRestart || rec.Interruptions != 1 {
				t.Errorf("after the drain: %+v", rec)
			}
			expect.Equal(t, "phase", r.info().Phase, session.PhaseParked)
			expect.Equal(t, "waiting messages", r.info().Waiting, 10)

			two := newStage()
			r.worker(two, slots(1), with(func(o *worker.Config) { o.ShareTurns(100) }))
			b := two.next(t, "m0")
			expect.List(t, "history", brief(b.History), "user hello", "assistant half (interrupted)")
			b.reply("whole")
			for i := 1; i <= 10; i++ {
				two.next(t, fmt.Sprint("m", i)).reply("ok")
			}
			r.ends("m10", session.StatusDone)
			expect.List(t, "turns", r.starts(r.key), want...)
			expect.Equal(t, "entries", len(r.transcript(r.key)), 23)
		})
	}
}

// The mark's reply is lost, however often the worker tries: the mark counts once.
func TestMarkReplyIsLost(t *testing.T) {
	t.Parallel()
	for name, strike := range map[string]func(*redistest.Faults){
		"lost":  func(f *redistest.Faults) { f.LoseReply(marking, -1) },
		"twice": func(f *redistest.Faults) { f.RunTwice(marking, -1) },
		"never sent": func(f *redistest.Faults) {
			f.FailBefore(marking, -1, errors.New("no such luck"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			var f redistest.Faults
			strike(&f)
			s := newStage()
			w := r.worker(s, faulty(&f), drainTimeout(0), slots(1))
			r.say("m1", "hello")
			s.next(t, "m1").text("half")
			expect.Received(t, "the end of the drain", drain(w))
			rec := r.resumeRecord(r.key)
			if !rec.Pending || rec.Reason != resume.ReasonShutdown || rec.Interruptions != 1 {
				t.Errorf("after the drain: %+v", rec)
			}
			expect.Equal(t, "waiting", r.rdb.ZScore(r.ctx, rediskey.Ready, r.key).Err() == nil, true)
		})
	}
}
