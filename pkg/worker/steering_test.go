package worker_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"turnstile"

	"turnstile/internal/chat/receipt"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/agent/echo"
	"turnstile/pkg/session"
	"turnstile/pkg/worker"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// An accepted steer is a part of the turn: at its place in the transcript, in an event, and in
// the turn's end.
func TestSteerIsAccepted(t *testing.T) {
	t.Parallel()
	for end, status := range map[string]session.Status{"done": session.StatusDone, "failed": session.StatusFailed, "interrupted": session.StatusInterrupted, "stopped": session.StatusStopped} {
		t.Run(end, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			s := steerStage{newStage()}
			r.worker(s)
			r.say("m1", "hello")
			a := s.next(t, "m1")
			r.say("m2", "behind")
			told := r.say("m3", "/steer to the left")
			expect.Equal(t, "receipt", told.Status, receipt.Queued)
			a.text("one")
			a.steer(t, "m3").Accept()
			a.text("two")
			e := r.awaitEvent("the steer's event", func(e session.Event) bool { return e.Type == session.EventSteered })
			expect.Equal(t, "its turn", e.Turn+strings.Join(e.Messages, " "), a.ID+"m3")
			want := []string{"user hello", "assistant one", "user to the left", "assistant two"}
			switch end {
			case "done":
				a.over <- verdict{}
			case "failed":
				a.fail(fmt.Errorf("broken"))
			case "interrupted":
				r.say("m4", "now", session.ModeInterrupt)
			case "stopped":
				r.say("", "/stop")
			}
			if end != "done" {
				want[3] += " (interrupted)"
			}
			expect.Equal(t, "its turn", r.ends("m3", status).Turn, a.ID)
			expect.Equal(t, "reply", r.ends("m1", status).Reply, "two")
			if end == "stopped" {
				expect.Soon(t, "the session to be free", func() bool { return r.token() == "" })
			} else {
				next := "m2"
				if end == "interrupted" {
					next = "m4"
				}
				s.next(t, next)
			}
			expect.List(t, "transcript", r.transcript(r.key), want...)
		})
	}
}

// The echo agent takes steers while it works, and says so.
func TestSteerIntoEcho(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.worker(echo.New())
	r.say("m1", "sleep=1500ms hello")
	r.awaitEvent("the turn", func(e session.Event) bool { return e.Type == session.EventTurnStarted })
	r.say("m2", "to the left", session.ModeSteer)
	o := r.ends("m2", session.StatusDone)
	expect.Equal(t, "reply", o.Reply, "echo: hello\n\nsteered: to the left")
	expect.Equal(t, "its turn", o.Turn, r.ends("m1", session.StatusDone).Turn)
	expect.List(t, "transcript", r.transcript(r.key), "user sleep=1500ms hello", "user to the left", "assistant echo: hello\n\nsteered: to the left")
}

// A steer that the agent does not take becomes a separate turn, at its old place in the queue.
func TestSteerIsNotTaken(t *testing.T) {
	t.Parallel()
	behind := func(r *rig) {
		r.say("m2", "behind")
		r.say("m3", "steer", session.ModeSteer)
		r.say("m4", "last")
	}
	check := func(r *rig) {
		for _, id := range []string{"m1", "m2", "m3", "m4"} {
			r.ends(id, session.StatusDone)
		}
		expect.List(r, "turns", r.starts(r.key), "m1", "m2", "m3", "m4")
		expect.Equal(r, "entries", len(r.transcript(r.key)), 8)
	}
	t.Run("the agent takes none", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		s := newStage()
		r.worker(s)
		r.say("m1", "hello")
		a := s.next(t, "m1")
		behind(r)
		expect.Equal(t, "it has a channel", a.Steers() != nil, false)
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
		r.awaitEvent("the turn", func(e session.Event) bool { return e.Type == session.EventTurnStarted })
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
			expect.Soon(t, "the steer to be offered", func() bool { return r.info().Waiting == 2 })
			take(t, a)
			a.reply("ok")
			for _, id := range []string{"m2", "m3", "m4"} {
				b := s.next(t, id)
				expect.Equal(t, "attempt", b.Attempt, 1)
				expect.Equal(t, "redelivered", b.Redelivered, false)
				b.reply("ok")
			}
			check(r)
		})
	}
}

// A steer that is accepted after the turn's end is not accepted.
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
	r.ends("m1", session.StatusDone)
	steer.Accept()
	s.next(t, "m2").reply("two")
	r.ends("m2", session.StatusDone)
	expect.List(t, "transcript", r.transcript(r.key), "user hello", "assistant ok", "user steer", "assistant two")
}

// The turn ends while the result of a steer is in flight: the message does not stay among the
// active ones.
func TestSteerIsTakenAsTheTurnEnds(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var f redistest.Faults
	gate := f.GateReply(steering(rediskey.TaskID(r.key, "m1")))
	s := steerStage{newStage()}
	r.worker(s, faulty(&f), sentinelTTL(time.Minute))
	r.say("m1", "hello")
	a := s.next(t, "m1")
	r.say("m2", "steer", session.ModeSteer)
	expect.Received(t, "the steer's result", gate.Arrived())
	a.reply("ok")
	// No event shows that the turn's end waits, so this takes time.
	<-time.After(100 * time.Millisecond)
	if o, ended, err := actors.Result(r.ctx, r.client.Session(r.key), "m1"); err != nil || ended {
		t.Errorf("the turn has ended as %s without the steer's result: %v", o.Status, err)
	}
	gate.Release()
	s.next(t, "m2").reply("two")
	r.ends("m1", session.StatusDone)
	r.ends("m2", session.StatusDone)
	expect.Equal(t, "entries", len(r.transcript(r.key)), 4)
}

// The signal is lost: the next renewal reports the steer.
func TestSteerSignalIsLost(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := steerStage{newStage()}
	r.worker(s, sentinelTTL(expect.Lease(1500*time.Millisecond)))
	r.say("m1", "hello")
	a := s.next(t, "m1")
	expect.OK(t, r.rdb.HSet(r.ctx, r.k.Run(), "worker", "nobody").Err())
	r.say("m2", "steer", session.ModeSteer)
	a.steer(t, "m2").Accept()
	a.reply("ok")
	r.ends("m2", session.StatusDone)
	expect.List(t, "turns", r.starts(r.key), "m1")
}

// A steer that arrives while the turn is starting is handed over when the agent runs, whether the
// signal or only the promotion reports it.
func TestSteerWhileStarting(t *testing.T) {
	t.Parallel()
	for _, heard := range []bool{true, false} {
		t.Run(fmt.Sprint("heard ", heard), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			var f redistest.Faults
			gate := f.Gate(history)
			s := steerStage{newStage()}
			r.worker(s, faulty(&f), sentinelTTL(time.Minute))
			r.say("m1", "hello")
			expect.Received(t, "the reading of the history", gate.Arrived())
			if !heard {
				expect.OK(t, r.rdb.HSet(r.ctx, r.k.Run(), "worker", "nobody").Err())
			}
			expect.Equal(t, "receipt", r.say("m2", "steer", session.ModeSteer).Status, receipt.Queued)
			gate.Release()
			a := s.next(t, "m1")
			a.steer(t, "m2").Accept()
			a.reply("ok")
			r.ends("m2", session.StatusDone)
			expect.List(t, "transcript", r.transcript(r.key), "user hello", "user steer", "assistant ok")
		})
	}
}

// kill -9 after a steer was accepted: both messages run again, and leave one set of entries.
func TestSteeredTurnIsKilled(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	one := r.process("one", job{TTL: expect.Lease(3 * time.Second), Checkpoint: time.Millisecond})
	r.say("m1", "linger")
	r.awaitEvent("the turn", func(e session.Event) bool { return e.Type == session.EventToolEnd })
	r.say("m2", "behind")
	r.say("m3", "to the left", session.ModeSteer)
	r.awaitEvent("the steer", func(e session.Event) bool { return e.Type == session.EventSteered })
	one.kill()
	r.process("two", heir)
	for _, id := range []string{"m1", "m2", "m3"} {
		r.ends(id, session.StatusDone)
	}
	expect.List(t, "turns", r.starts(r.key), "m1", "m1", "m3", "m2")
	var users []string
	for _, l := range r.transcript(r.key) {
		if strings.HasPrefix(l, "user") {
			users = append(users, l)
		}
	}
	expect.List(t, "what the users said", users, "user linger", "user to the left", "user behind")
}

// Steering takes messages from both ends of a long line. When that moves others within its reach,
// it offers them as well, without a further signal.
func TestSteerFindsMessagesInALongLine(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := steerStage{newStage()}
	r.worker(s, sentinelTTL(10*patience), with(func(o *worker.Config) { o.Queue.Cap = 10_000 }))
	r.say("m1", "hello")
	a := s.next(t, "m1")
	r.say("m2", "deep")
	entry := r.rdb.HGet(r.ctx, r.k.Followups(), "m2").Val()
	expect.OK(t, r.rdb.HSet(r.ctx, r.k.Followups(), "m2", strings.Replace(entry, `"mode":"queue"`, `"mode":"steer"`, 1)).Err())
	expect.OK(t, r.rdb.HSet(r.ctx, r.k.Task(rediskey.TaskID(r.key, "m2")), "steer", "1").Err())
	var gone []any
	for i := range 500 {
		gone = append(gone, rediskey.TaskID(r.key, fmt.Sprint("gone", i)))
	}
	expect.OK(t, r.rdb.RPush(r.ctx, r.k.Pending(), gone...).Err())
	expect.OK(t, r.rdb.LPush(r.ctx, r.k.Pending(), gone[:499]...).Err())
	r.say("m3", "last", session.ModeSteer)
	a.steer(t, "m3").Accept()
	a.steer(t, "m2").Accept()
	expect.OK(t, r.rdb.Del(r.ctx, r.k.Pending()).Err())
	a.reply("ok")
	r.ends("m2", session.StatusDone)
	r.ends("m3", session.StatusDone)
}

// A message is steered into a turn that never starts its agent: it runs afterwards, and does not
// count as a message of the turn that comes next.
func TestSteerIntoATurnWithoutAnAgent(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newStage()
	var f redistest.Faults
	finish, steered := f.Gate(script("finish")), f.GateReply(script("steer"))
	r.send(r.key, turnstile.Message{ID: "m1", Text: "too old", ExpiresIn: time.Millisecond})
	r.say("m2", "next")
	r.awaitAge("m1", time.Millisecond)
	r.worker(steerStage{s}, faulty(&f))
	expect.Received(t, "the early end", finish.Arrived())
	expect.Equal(t, "status", r.say("m3", "steer", session.ModeSteer).Status, receipt.Queued)
	select {
	case <-steered.Arrived(): // the worker need not try to steer
	case <-time.After(100 * time.Millisecond):
	}
	finish.Release()
	expect.Soon(t, "the next turn", func() bool {
		return r.rdb.HGet(r.ctx, r.k.Task(rediskey.TaskID(r.key, "m2")), "state").Val() == "active"
	})
	steered.Release()
	a := s.next(t, "m2")
	expect.Equal(t, "redelivered", a.Redelivered, false)
	a.reply("ok")
	r.ends("m2", session.StatusDone)
	b := s.next(t, "m3")
	expect.Equal(t, "redelivered", b.Redelivered, false)
	b.reply("taken")
	expect.Equal(t, "reply", r.ends("m3", session.StatusDone).Reply, "taken")
}

// A steer that the agent has not taken runs as a separate turn, also after a turn that failed.
func TestUntakenSteerOfAFailedTurnRuns(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := steerStage{newStage()}
	r.worker(s)
	r.say("m1", "hello")
	a := s.next(t, "m1")
	r.say("m2", "steer", session.ModeSteer)
	expect.Soon(t, "the steer to be offered", func() bool { return r.info().Waiting == 0 })
	a.fail(errors.New("no"))
	s.next(t, "m2").reply("two")
	r.ends("m1", session.StatusFailed)
	r.ends("m2", session.StatusDone)
}
