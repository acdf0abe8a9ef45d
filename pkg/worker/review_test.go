package worker_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/testredis"
	"turnstile/pkg/session"
	sq "turnstile/pkg/sessionqueue"
)

// move chooses the calls of one script of pkg/sessionqueue.
func move(name string) testredis.Match {
	return func(cmd redis.Cmder) bool {
		args := cmd.Args()
		if scriptArgs(cmd) < 0 {
			return false
		}
		sha, _ := args[1].(string)
		return sq.ScriptName(sha) == name
	}
}

// A message is to be steered into a turn that never has an agent: it is run
// afterwards, and not counted among the messages of the turn that comes next.
func TestSteerIntoATurnThatIsNotRun(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newStage()
	var f testredis.Faults
	finish, steered := f.Gate(move("finish")), f.GateReply(move("steer"))
	r.submit(r.key, session.Message{ID: "m1", Text: "too old", ExpiresIn: session.Duration(time.Millisecond)})
	r.say("m2", "next")
	r.awaitAge("m1", time.Millisecond)
	r.worker(steerStage{s}, faulty(&f))
	receive(t, "the early end", finish.Arrived())
	equal(t, "status", r.say("m3", "steer", session.ModeSteer).Status, sq.Queued)
	select {
	case <-steered.Arrived(): // it must not be
	case <-time.After(100 * time.Millisecond):
	}
	finish.Release()
	await(t, "the next turn", func() bool {
		return r.rdb.HGet(r.ctx, r.k.Task(session.TaskID(r.key, "m2")), "state").Val() == "active"
	})
	steered.Release()
	a := s.next(t, "m2")
	equal(t, "redelivered", a.Redelivered, false)
	a.reply("ok")
	r.ends("m2", sq.StatusDone)
	b := s.next(t, "m3")
	equal(t, "redelivered", b.Redelivered, false)
	b.reply("taken")
	equal(t, "reply", r.ends("m3", sq.StatusDone).Reply, "taken")
}
