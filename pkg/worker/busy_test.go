package worker_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"turnstile/internal/rediskey"
	"turnstile/internal/testredis"
	"turnstile/pkg/agent"
	"turnstile/pkg/agent/echo"
	"turnstile/pkg/followup"
	"turnstile/pkg/session"
	sq "turnstile/pkg/sessionqueue"
	"turnstile/pkg/worker"
)

// steerStage is a stage whose turns can be steered.
type steerStage struct{ *stage }

func (steerStage) Steerable() bool { return true }

func line(s followup.Settings) change {
	return with(func(o *worker.Options) { o.Queue.Line = s })
}

// steering chooses the calls of the steer script in the turn of one message.
func steering(task string) testredis.Match {
	return func(cmd redis.Cmder) bool {
		args := cmd.Args()
		return script("steer")(cmd) && args[len(args)-1] == task
	}
}

// steer waits for a steer that the turn is offered.
func (a *act) steer(t testing.TB, id string) agent.Steer {
	t.Helper()
	s := receive(t, "the steer "+id, a.Steers)
	if s.Message.ID != id {
		t.Fatalf("the turn is offered %s, want %s", s.Message.ID, id)
	}
	return s
}

// Several collected messages are one turn whose end is each one's; those of them
// that are too old or no messages are put aside, and the turn goes on.
func TestCollectedTurn(t *testing.T) {
	t.Parallel()
	for name, put := range map[string]string{"good ones": "", "bad ones first": "first", "bad ones last": "last"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			s := newStage()
			r.worker(s, line(followup.Settings{Mode: session.ModeCollect, Debounce: followup.Millis(30 * time.Millisecond)}))
			r.say("m1", "hello")
			a := s.next(t, "m1")
			bad := func() {
				r.submit(r.key, session.Message{ID: "old", Text: "old", ExpiresIn: 1})
				const id = "broken"
				_, err := asynq.NewClientFromRedisClient(r.rdb).EnqueueContext(r.ctx, asynq.NewTask(session.TaskType, []byte("{")),
					asynq.Queue(rediskey.Queue(r.key)), asynq.TaskID(session.TaskID(r.key, id)))
				must(t, err)
				must(t, r.rdb.HSet(r.ctx, r.k.Task(session.TaskID(r.key, id)), "quiet", "1 100").Err())
			}
			if put == "first" {
				bad()
			}
			r.say("m2", "one")
			r.say("m3", "two")
			if put == "last" {
				bad()
			}
			a.reply("ok")
			b := s.next(t, "m2")
			equal(t, "messages", len(b.Messages), 2)
			equal(t, "text", b.Text(), "one\n\ntwo")
			b.reply("both")
			for _, id := range []string{"m2", "m3"} {
				o := r.ends(id, sq.StatusDone)
				equal(t, "its reply", o.Reply+" "+o.Turn, "both "+b.ID)
			}
			want := []string{"m1", "m2", "m3"}
			if put != "" {
				if o := r.ends("old", sq.StatusExpired); !strings.Contains(o.Error, "expired") {
					t.Errorf("old: %s", o.Error)
				}
				r.ends("broken", sq.StatusFailed)
				r.archivedAs("old")
				r.archivedAs("broken")
			}
			equalList(t, "turns", r.starts(r.key), want...)
			equalList(t, "transcript", r.transcript(r.key), "user hello", "assistant ok", "user one", "user two", "assistant both")
		})
	}
}

func TestCollectedTurnOfBadMessagesOnly(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newStage()
	r.worker(s, line(followup.Settings{Mode: session.ModeCollect, Debounce: followup.Millis(time.Millisecond)}))
	r.say("m1", "hello")
	a := s.next(t, "m1")
	for i := range 3 {
		r.submit(r.key, session.Message{ID: fmt.Sprint("old", i), Text: "old", ExpiresIn: 1})
	}
	a.reply("ok")
	for i := range 3 {
		r.ends(fmt.Sprint("old", i), sq.StatusExpired)
	}
	await(t, "the session to be free", func() bool { return r.token() == "" })
	s.empty(t)
	equal(t, "waiting messages", r.info().Pending, 0)
}

// An accepted steer is a part of the turn: at its point of the transcript, in an
// event, and with the turn's end.
func TestSteerIsAccepted(t *testing.T) {
	t.Parallel()
	for end, status := range map[string]sq.Status{"done": sq.StatusDone, "failed": sq.StatusFailed, "interrupted": sq.StatusInterrupted, "stopped": sq.StatusStopped} {
		t.Run(end, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			s := steerStage{newStage()}
			r.worker(s)
			r.say("m1", "hello")
			a := s.next(t, "m1")
			r.say("m2", "behind")
			receipt := r.say("m3", "/steer to the left")
			equal(t, "receipt", receipt.Status, sq.Queued)
			a.text("one")
			a.steer(t, "m3").Accept()
			a.text("two")
			e := r.awaitEvent("the steer's event", func(e sq.Event) bool { return e.Type == sq.EventSteered })
			equal(t, "its turn", e.Turn+strings.Join(e.Messages, " "), a.ID+"m3")
			want := []string{"user hello", "assistant one", "user to the left", "assistant two"}
			switch end {
			case "done":
				a.over <- verdict{}
			case "failed":
				a.fail(fmt.Errorf("broken"))
				want = nil
			case "interrupted":
				r.say("m4", "now", session.ModeInterrupt)
				want[3] += " (interrupted)"
			case "stopped":
				r.say("", "/stop")
				want = nil
			}
			equal(t, "its turn", r.ends("m3", status).Turn, a.ID)
			equal(t, "reply", r.ends("m1", status).Reply, "two")
			if end == "stopped" {
				await(t, "the session to be free", func() bool { return r.token() == "" })
			} else {
				next := "m2"
				if end == "interrupted" {
					next = "m4"
				}
				s.next(t, next)
			}
			equalList(t, "transcript", r.transcript(r.key), want...)
		})
	}
}

// The echo agent takes steers while it works, and says so.
func TestSteerIntoEcho(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.worker(echo.New())
	r.say("m1", "sleep=1500ms hello")
	r.awaitEvent("the turn", func(e sq.Event) bool { return e.Type == sq.EventTurnStarted })
	r.say("m2", "to the left", session.ModeSteer)
	o := r.ends("m2", sq.StatusDone)
	equal(t, "reply", o.Reply, "echo: hello\n\nsteered: to the left")
	equal(t, "its turn", o.Turn, r.ends("m1", sq.StatusDone).Turn)
	equalList(t, "transcript", r.transcript(r.key), "user sleep=1500ms hello", "user to the left", "assistant echo: hello\n\nsteered: to the left")
}

// A steer that the agent does not take is a turn of its own, in its old place.
func TestSteerIsNotTaken(t *testing.T) {
	t.Parallel()
	behind := func(r *rig) {
		r.say("m2", "behind")
		r.say("m3", "steer", session.ModeSteer)
		r.say("m4", "last")
	}
	check := func(r *rig) {
		for _, id := range []string{"m1", "m2", "m3", "m4"} {
			r.ends(id, sq.StatusDone)
		}
		equalList(r, "turns", r.starts(r.key), "m1", "m2", "m3", "m4")
		equal(r, "entries", len(r.transcript(r.key)), 8)
	}
	t.Run("the agent takes none", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		s := newStage()
		r.worker(s)
		r.say("m1", "hello")
		a := s.next(t, "m1")
		behind(r)
		equal(t, "it has a channel", a.Steers != nil, false)
		a.reply("ok")
		for _, id := range []string{"m2", "m3", "m4"} {
			s.next(t, id).reply("ok")
		}
		check(r)
	})
	t.Run("echo refuses", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.worker(echo.New())
		r.say("m1", "steer=off sleep=150ms hello")
		r.awaitEvent("the turn", func(e sq.Event) bool { return e.Type == sq.EventTurnStarted })
		behind(r)
		check(r)
	})
	for name, take := range map[string]func(*testing.T, *act){
		"not received": func(*testing.T, *act) {},
		"not accepted": func(t *testing.T, a *act) { a.steer(t, "m3") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			s := steerStage{newStage()}
			r.worker(s)
			r.say("m1", "hello")
			a := s.next(t, "m1")
			behind(r)
			await(t, "the steer to be offered", func() bool { return r.info().Pending == 2 })
			take(t, a)
			a.reply("ok")
			for _, id := range []string{"m2", "m3", "m4"} {
				b := s.next(t, id)
				equal(t, "attempt", b.Attempt, 1)
				equal(t, "redelivered", b.Redelivered, false)
				b.reply("ok")
			}
			check(r)
		})
	}
}

// A steer whose acceptance comes after the turn's end is not accepted.
func TestSteerIsAcceptedTooLate(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := steerStage{newStage()}
	r.worker(s)
	r.say("m1", "hello")
	a := s.next(t, "m1")
	r.say("m2", "steer", session.ModeSteer)
	steer := a.steer(t, "m2")
	a.reply("ok")
	r.ends("m1", sq.StatusDone)
	steer.Accept()
	s.next(t, "m2").reply("two")
	r.ends("m2", sq.StatusDone)
	equalList(t, "transcript", r.transcript(r.key), "user hello", "assistant ok", "user steer", "assistant two")
}

// The turn ends while the answer to a steer is on its way: the message is not
// forgotten among the running ones.
func TestSteerIsTakenAsTheTurnEnds(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var f testredis.Faults
	gate := f.GateReply(steering(session.TaskID(r.key, "m1")))
	s := steerStage{newStage()}
	r.worker(s, faulty(&f), sentinelTTL(time.Minute))
	r.say("m1", "hello")
	a := s.next(t, "m1")
	r.say("m2", "steer", session.ModeSteer)
	receive(t, "the steer's answer", gate.Arrived())
	a.reply("ok")
	// Nothing tells that the turn's end waits, so this is a matter of time.
	<-time.After(100 * time.Millisecond)
	if o, ended, err := r.client.Result(r.ctx, r.key, "m1"); err != nil || ended {
		t.Errorf("the turn has ended as %s without the answer: %v", o.Status, err)
	}
	gate.Release()
	s.next(t, "m2").reply("two")
	r.ends("m1", sq.StatusDone)
	r.ends("m2", sq.StatusDone)
	equal(t, "entries", len(r.transcript(r.key)), 4)
}

// The signal got lost: the next renewal finds the steer.
func TestSteerSignalIsLost(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := steerStage{newStage()}
	r.worker(s, sentinelTTL(1500*time.Millisecond))
	r.say("m1", "hello")
	a := s.next(t, "m1")
	must(t, r.rdb.HSet(r.ctx, r.k.Run(), "worker", "nobody").Err())
	r.say("m2", "steer", session.ModeSteer)
	a.steer(t, "m2").Accept()
	a.reply("ok")
	r.ends("m2", sq.StatusDone)
	equalList(t, "turns", r.starts(r.key), "m1")
}

// A steer that finds the turn starting is handed over when the agent runs, be it
// that the signal is heard or only the promotion tells of it.
func TestSteerWhileStarting(t *testing.T) {
	t.Parallel()
	for _, heard := range []bool{true, false} {
		t.Run(fmt.Sprint("heard ", heard), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			var f testredis.Faults
			gate := f.Gate(history)
			s := steerStage{newStage()}
			r.worker(s, faulty(&f), sentinelTTL(time.Minute))
			r.say("m1", "hello")
			receive(t, "the reading of the history", gate.Arrived())
			if !heard {
				must(t, r.rdb.HSet(r.ctx, r.k.Run(), "worker", "nobody").Err())
			}
			equal(t, "receipt", r.say("m2", "steer", session.ModeSteer).Status, sq.Queued)
			gate.Release()
			a := s.next(t, "m1")
			a.steer(t, "m2").Accept()
			a.reply("ok")
			r.ends("m2", sq.StatusDone)
			equalList(t, "transcript", r.transcript(r.key), "user hello", "user steer", "assistant ok")
		})
	}
}

// kill -9 after a steer was accepted: both messages come back, and leave one set
// of entries.
func TestSteeredTurnIsKilled(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	j := job{TTL: time.Second, Checkpoint: time.Millisecond}
	one := r.process("one", j)
	r.say("m1", "linger")
	r.awaitEvent("the turn", func(e sq.Event) bool { return e.Type == string(agent.EventToolEnd) })
	r.say("m2", "behind")
	r.say("m3", "to the left", session.ModeSteer)
	r.awaitEvent("the steer", func(e sq.Event) bool { return e.Type == sq.EventSteered })
	one.kill()
	r.process("two", j)
	for _, id := range []string{"m1", "m2", "m3"} {
		r.ends(id, sq.StatusDone)
	}
	equalList(t, "turns", r.starts(r.key), "m1", "m1", "m3", "m2")
	var users []string
	for _, l := range r.transcript(r.key) {
		if strings.HasPrefix(l, "user") {
			users = append(users, l)
		}
	}
	equalList(t, "what the users said", users, "user linger", "user to the left", "user behind")
}

// Interrupt keeps what was done, rollback nothing.
func TestInterruptAndRollback(t *testing.T) {
	t.Parallel()
	for mode, want := range map[session.Mode][]string{
		session.ModeInterrupt: {"user hello", "assistant half (interrupted)", "user now", "assistant two"},
		session.ModeRollback:  {"user now", "assistant two"},
	} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			s := newStage()
			r.worker(s, with(func(o *worker.Options) { o.CheckpointInterval = time.Millisecond }))
			r.say("m1", "hello")
			a := s.next(t, "m1")
			a.text("half")
			await(t, "a checkpoint", func() bool { return r.rdb.Exists(r.ctx, r.k.Partial()).Val() == 1 })
			r.say("m3", "behind")
			equal(t, "position", r.say("m2", "now", mode).Position, 2)
			o := r.ends("m1", sq.StatusInterrupted)
			b := s.next(t, "m2")
			equal(t, "a partial is left", r.rdb.Exists(r.ctx, r.k.Partial()).Val(), 0)
			state := r.rdb.HGet(r.ctx, r.k.Task(session.TaskID(r.key, "m1")), "state").Val()
			if mode == session.ModeInterrupt {
				equal(t, "error", o.Error, "interrupted by a newer message")
				equal(t, "state", state, "completed")
			} else {
				equal(t, "error", o.Error, "rolled back by a newer message")
				equal(t, "reason in the archive", r.archivedAs("m1"), o.Error)
				equal(t, "history", len(b.History), 0)
			}
			b.reply("two")
			s.next(t, "m3")
			equalList(t, "transcript", r.transcript(r.key), want...)
		})
	}
}

// The worker dies between the signal and the turn's end.
func TestInterruptedWorkerIsKilled(t *testing.T) {
	t.Parallel()
	for mode, want := range map[session.Mode][]string{
		session.ModeInterrupt: {"user tool=look sleep=1h hello", "tool look (interrupted)", "user now", "assistant echo: now"},
		session.ModeRollback:  {"user now", "assistant echo: now"},
	} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			j := job{TTL: time.Second, Checkpoint: time.Millisecond}
			one := r.process("one", j)
			r.say("m1", "tool=look sleep=1h hello")
			await(t, "a checkpoint", func() bool { return r.rdb.Exists(r.ctx, r.k.Partial()).Val() == 1 })
			one.signal(syscall.SIGSTOP)
			equal(t, "position", r.say("m2", "now", mode).Position, 2)
			one.kill()
			r.process("two", j)
			r.ends("m1", sq.StatusInterrupted)
			r.ends("m2", sq.StatusDone)
			equalList(t, "turns", r.starts(r.key), "m1", "m2")
			equalList(t, "transcript", r.transcript(r.key), want...)
		})
	}
}

// The note of the turn after a full line has one line for each dropped message,
// once; a turn that was cut off has told nobody.
func TestDroppedAreToldInTheNote(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newStage()
	r.worker(s, line(followup.Settings{Cap: 1, Drop: followup.DropSummarize}))
	r.say("m1", "hello")
	a := s.next(t, "m1")
	for i := 2; i <= 4; i++ {
		r.say(fmt.Sprint("m", i), fmt.Sprint("text ", i))
	}
	r.ends("m2", sq.StatusDropped)
	r.ends("m3", sq.StatusDropped)
	equal(t, "note", a.Note, "")
	a.reply("ok")
	lines := func(note string) (lines []string) {
		for l := range strings.SplitSeq(strings.Trim(note, "[]"), "\n") {
			if strings.HasPrefix(l, "- ") {
				lines = append(lines, l)
			}
		}
		return lines
	}
	want := []string{`- "text 2"`, `- "text 3"`}
	b := s.next(t, "m4")
	equalList(t, "lines of the note", lines(b.Note), want...)
	b.fail(agent.Retryable(fmt.Errorf("flaky")))
	b = s.next(t, "m4")
	equalList(t, "lines of the second attempt's note", lines(b.Note), want...)
	r.say("m5", "on")
	b.reply("ok")
	c := s.next(t, "m5")
	equal(t, "the next turn's note", c.Note, "")
	c.reply("ok")
	r.ends("m5", sq.StatusDone)
	r.say("m6", "on")
	d := s.next(t, "m6")
	equal(t, "the note of the turn after", d.Note, "")
	d.reply("ok")
	if texts := r.transcript(r.key); slices.ContainsFunc(texts, func(l string) bool { return strings.Contains(l, "System note") }) {
		t.Errorf("the note is in the transcript: %q", texts)
	}
}

// A drain's notice and signals reach a turn that is just putting messages aside.
func TestSignalsWhileMessagesAreDismissed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var f testredis.Faults
	gate := f.GateReply(func(cmd redis.Cmder) bool { return slices.Contains(cmd.Args(), any("old")) })
	s := steerStage{newStage()}
	w := r.worker(s, faulty(&f), sentinelTTL(time.Minute), line(followup.Settings{Mode: session.ModeCollect, Debounce: followup.Millis(time.Millisecond)}),
		with(func(o *worker.Options) { o.DrainTimeout = time.Minute }))
	r.say("m1", "hello")
	a := s.next(t, "m1")
	r.submit(r.key, session.Message{ID: "old", Text: "old", ExpiresIn: 1})
	r.say("m2", "one")
	a.reply("ok")
	receive(t, "the dismissal", gate.Arrived())
	r.say("m3", "steer", session.ModeSteer)
	gate.Release()
	ctx, cancel := context.WithCancel(r.ctx)
	drained := make(chan struct{})
	go func() { defer close(drained); w.Drain(ctx, worker.ReasonShutdown) }()
	b := s.next(t, "m2")
	b.steer(t, "m3").Accept()
	b.reply("two")
	r.ends("m3", sq.StatusDone)
	<-drained
	cancel()
}
