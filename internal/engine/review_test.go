package engine_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"turnstile"
	"turnstile/internal/engine"
	"turnstile/internal/rediskey"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// A failed attempt is tried again from the beginning, although it was stored for
// the case that it was cut off.
func TestRetryBeginsAnew(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newStage()
	r.worker(s, with(func(o *engine.Options) { o.CheckpointInterval = time.Millisecond }))
	r.say("m1", "hello")
	a := s.next(t, "m1")
	a.text("half a reply")
	expect.Soon(t, "the checkpoint", func() bool { return r.rdb.Exists(r.ctx, r.k.Partial()).Val() == 1 })
	a.fail(agent.Retryable(errors.New("flaky")))
	b := s.next(t, "m1")
	expect.Equal(t, "attempt", b.Attempt, 2)
	expect.Equal(t, "history", len(b.History), 0)
	b.reply("whole")
	r.ends("m1", session.StatusDone)
	expect.List(t, "transcript", r.transcript(r.key), "user hello", "assistant whole")
}

// What a run had done that was cut off outlives a failed attempt to go on from it.
func TestRetryGoesOnFromWhatWasCutOff(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newStage()
	w := r.worker(s)
	r.say("m1", "hello")
	a := s.next(t, "m1")
	a.text("cut off")
	w.Drain(ended(), engine.ReasonRestart)
	r.worker(s, with(func(o *engine.Options) { o.CheckpointInterval = time.Millisecond }))
	b := s.next(t, "m1")
	before := r.rdb.Get(r.ctx, r.k.Partial()).Val()
	b.text("failed")
	expect.Soon(t, "the checkpoint", func() bool { return r.rdb.Get(r.ctx, r.k.Partial()).Val() != before })
	b.fail(agent.Retryable(errors.New("flaky")))
	c := s.next(t, "m1")
	expect.Equal(t, "attempt", c.Attempt, 2)
	expect.Equal(t, "history", len(c.History), 1)
	c.reply("whole")
	r.ends("m1", session.StatusDone)
	expect.List(t, "transcript", r.transcript(r.key), "user hello", "assistant cut off (interrupted)", "assistant whole")
}

// A message is to be steered into a turn that never has an agent: it is run
// afterwards, and not counted among the messages of the turn that comes next.
func TestSteerIntoATurnThatIsNotRun(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newStage()
	var f redistest.Faults
	finish, steered := f.Gate(script("finish")), f.GateReply(script("steer"))
	r.submit(r.key, session.Message{ID: "m1", Text: "too old", ExpiresIn: session.Duration(time.Millisecond)})
	r.say("m2", "next")
	r.awaitAge("m1", time.Millisecond)
	r.worker(steerStage{s}, faulty(&f))
	expect.Received(t, "the early end", finish.Arrived())
	expect.Equal(t, "status", r.say("m3", "steer", session.ModeSteer).Status, turnstile.Queued)
	select {
	case <-steered.Arrived(): // it must not be
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

// A Redis that does not answer does not keep a drain from interrupting the agents
// when its time is up.
func TestDrainWhileRedisHangs(t *testing.T) {
	t.Parallel()
	server := redistest.StartServer(t)
	r := rigOn(t, server.URL(), server.Client())
	one, two := newStage(), newStage()
	w := r.worker(one, sentinelTTL(time.Minute), drainTimeout(50*time.Millisecond))
	r.say("m1", "hello")
	a := one.next(t, "m1")
	server.Pause()
	began := time.Now()
	drained := drain(w)
	err := a.cause(t)
	took := time.Since(began)
	server.Resume()
	if !strings.Contains(err.Error(), string(engine.ReasonShutdown)) || took > 2500*time.Millisecond {
		t.Errorf("after %s the turn ended with %v", took, err)
	}
	expect.Received(t, "the end of the drain", drained)
	r.worker(two)
	b := two.next(t, "m1")
	expect.Equal(t, "redelivered", b.Redelivered, true)
	if !strings.Contains(b.Note, "gateway shutdown") {
		t.Errorf("note %q", b.Note)
	}
	b.reply("ok")
	r.ends("m1", session.StatusDone)
}
