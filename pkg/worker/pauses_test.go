package worker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"turnstile"
	"turnstile/internal/protocol/maintenance"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/pkg/worker"
	"turnstile/test/expect"
)

// unable is an agent that cannot be started until it is repaired.
type unable struct {
	tries    atomic.Int32
	repaired atomic.Bool
}

func (u *unable) Run(_ context.Context, turn *agent.Turn) (agent.Result, error) {
	u.tries.Add(1)
	if !u.repaired.Load() {
		return agent.Result{}, agent.Unavailable(errors.New("could not start the agent: too many\nopen files"))
	}
	return agent.Result{Text: fmt.Sprintf("%s, attempt %d, redelivered %v%s", turn.Text(), turn.Attempt, turn.Redelivered, turn.Note)}, nil
}

// warmUnable cannot start its warm agents.
type warmUnable struct{ *unable }

func (w warmUnable) Warm(ctx context.Context, turn *agent.Turn) (agent.Warm, error) {
	if _, err := w.Run(ctx, turn); err != nil {
		return nil, err
	}
	return startedAgent(w), nil
}

func (warmUnable) Signature() string { return "" }

type startedAgent struct{ *unable }

func (startedAgent) Ended() bool  { return false }
func (startedAgent) Close() error { return nil }

// pausing sets the first and the longest pause.
func pausing(first, longest time.Duration) change {
	return with(func(c *worker.Config) { c.AgentPause(first, longest); c.MaxAttempts = 2 })
}

const tooMany = "cannot start agent default: too many open files"

// While no worker can start the agent, messages wait as they were, and the worker says why, once for each longer
// pause. Repaired, it runs them in order.
func TestMessagesWaitForTheirAgent(t *testing.T) {
	t.Parallel()
	for name, make := range map[string]func(*unable) agent.Agent{
		"cold": func(u *unable) agent.Agent { return u },
		"warm": func(u *unable) agent.Agent { return warmUnable{u} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, u, seen := newRig(t), &unable{}, &seen{}
			w := r.worker(make(u), observes(seen), pausing(5*time.Millisecond, 20*time.Millisecond))
			r.say("m1", "one")
			r.say("m2", "two")
			expect.Soon(t, "many tries", func() bool { return u.tries.Load() > 6 })
			expect.Equal(t, "why", w.Status().Unable["default"], tooMany)
			expect.OK(t, w.Health())
			s := r.info()
			expect.Equal(t, "dead letters", s.DeadLetters, 0)
			expect.Equal(t, "shown as resumed", s.Resume.Pending, false)
			u.repaired.Store(true)
			expect.Equal(t, "m1", r.ends("m1", session.StatusDone).Reply, "one, attempt 1, redelivered false")
			expect.Equal(t, "m2", r.ends("m2", session.StatusDone).Reply, "two, attempt 1, redelivered false")
			expect.Equal(t, "unable", len(w.Status().Unable), 0)
			expect.List(t, "transcript", r.transcript(r.key),
				"user one", "assistant one, attempt 1, redelivered false", "user two", "assistant two, attempt 1, redelivered false")
			log := seen.log.String()
			expect.Equal(t, "warnings", strings.Count(log, "an agent cannot be started here"), 3) // of 5, 10 and 20 ms
			expect.Equal(t, "the end in the log", strings.Count(log, "the agent can be started again"), 1)
			expect.Equal(t, "told that it ran", seen.next(t, 0).Ran, false)
		})
	}
}

// A worker that cannot start its agent leaves all to one that can, and tries no second message meanwhile.
func TestOthersTakeOver(t *testing.T) {
	t.Parallel()
	r, u := newRig(t), &unable{}
	sick := r.worker(u, slots(1), pausing(time.Hour, time.Hour))
	r.say("m1", "hello")
	expect.Soon(t, "the pause", func() bool { return sick.Status().Unable["default"] == tooMany })
	for i := range 40 {
		r.send(fmt.Sprint(r.key, ".", i), turnstile.Message{ID: "m", Text: "hello"})
	}
	r.worker(says("healthy"), slots(2))
	expect.Equal(t, "m1", r.ends("m1", session.StatusDone).Reply, "healthy: hello")
	for i := range 40 {
		expect.Equal(t, "reply", r.outcomeIn(fmt.Sprint(r.key, ".", i), "m").Reply, "healthy: hello")
	}
	expect.Equal(t, "tries", u.tries.Load(), 1)
}

// ofTwo gives a worker the agents a and b.
func ofTwo(a, b agent.Agent) change {
	return with(func(c *worker.Config) {
		c.Agents = []worker.NamedAgent{{Name: "a", Sessions: []string{"a:*"}, Agent: a}, {Name: "b", Sessions: []string{"b:*"}, Agent: b}}
	})
}

// A pause of one agent does not hold the worker's others, nor that agent on other workers.
func TestOnlyTheAgentIsLeftAlone(t *testing.T) {
	t.Parallel()
	r, u := newRig(t), &unable{}
	w := r.worker(nil, ofTwo(u, says("b")), slots(1), pausing(time.Hour, time.Hour))
	r.send("a:1", turnstile.Message{ID: "m", Text: "hello"})
	expect.Soon(t, "the pause", func() bool { return w.Status().Unable["a"] != "" })
	for i := range 20 {
		for _, name := range []string{"a", "b"} {
			r.send(fmt.Sprint(name, ":", i), turnstile.Message{ID: "m", Text: "hello"})
		}
	}
	for i := range 20 {
		expect.Equal(t, "beside a", r.outcomeIn(fmt.Sprint("b:", i), "m").Reply, "b: hello")
	}
	expect.Soon(t, "a session says what it needs", func() bool {
		s, err := r.client.Session("a:1").Info(r.ctx)
		expect.OK(t, err)
		return s.Needs == "a" && s.Phase == session.PhaseParked
	})
	r.worker(nil, ofTwo(says("a"), says("b")))
	for i := range 20 {
		expect.Equal(t, "elsewhere", r.outcomeIn(fmt.Sprint("a:", i), "m").Reply, "a: hello")
	}
	expect.Equal(t, "tries", u.tries.Load(), 1)
}

// An agent that has done something has spent an attempt, even if it says that it cannot run.
func TestDoneBeforeItWasUnable(t *testing.T) {
	t.Parallel()
	emits := func(e agent.Event) func(*agent.Turn) error {
		return func(turn *agent.Turn) error { turn.Emit(e); return nil }
	}
	for name, does := range map[string]func(turn *agent.Turn) error{
		"text":  emits(agent.Event{Type: session.EventText, Text: "so far"}),
		"state": emits(agent.Event{Type: session.EventState, Data: []byte("1")}),
		"a step": func(turn *agent.Turn) error {
			_, err := agent.Step(context.Background(), turn, agent.StepSpec{Key: "k"}, func(context.Context, string) (int, error) { return 1, nil })
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			w := r.worker(agent.Func(func(_ context.Context, turn *agent.Turn) (agent.Result, error) {
				return agent.Result{}, agent.Unavailable(errors.Join(errors.New("no descriptors"), does(turn)))
			}), pausing(time.Hour, time.Hour))
			r.say("m1", "hello")
			expect.Equal(t, "why", r.ends("m1", session.StatusFailed).Why(), "no descriptors")
			expect.Equal(t, "unable", len(w.Status().Unable), 0)
		})
	}
}

// A session with further messages makes room, too, when its worker cannot start the agent any more.
func TestASessionLeavesAWorkerThatCannotStartItsAgent(t *testing.T) {
	t.Parallel()
	r, s, u := newRig(t), newStage(), &unable{}
	w := r.worker(agent.Func(func(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
		if turn.Session == r.key {
			return s.Run(ctx, turn)
		}
		return u.Run(ctx, turn)
	}), pausing(time.Hour, time.Hour))
	r.say("m1", "hello")
	r.say("m2", "hello")
	act := s.next(t, "m1")
	r.send("other", turnstile.Message{ID: "m", Text: "hello"})
	expect.Soon(t, "the pause", func() bool { return len(w.Status().Unable) > 0 })
	r.worker(says("healthy"))
	act.reply("ok")
	expect.Equal(t, "m2", r.ends("m2", session.StatusDone).Reply, "healthy: hello")
	expect.Equal(t, "tries", u.tries.Load(), 1)
}

// A paused agent holds neither a /stop nor a drain, also if the /stop came while the agent was being started.
func TestStopAndDrainDuringAPause(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var u unable
	w := r.worker(agent.Func(func(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
		r.say("", "/stop")
		return u.Run(ctx, turn)
	}), pausing(time.Hour, time.Hour))
	r.say("m1", "hello")
	r.ends("m1", session.StatusStopped)
	r.say("m2", "hello")
	r.say("", "/stop")
	r.ends("m2", session.StatusStopped)
	expect.OK(t, w.Stop(r.ctx))
}

// What another worker cannot start does not run there.
func TestAnAgentThatNoWorkerCanStartIsNeeded(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	heartbeat := r.otherWorker(maintenance.Layout)
	info := r.rdb.Get(r.ctx, heartbeat).Val()
	for number, text := range map[protowire.Number]string{1000: "other", 1003: "gone", 1006: "gone cannot start agent gone: no such file"} {
		info += string(protowire.AppendString(protowire.AppendTag(nil, number, protowire.BytesType), text))
	}
	expect.OK(t, r.rdb.Set(r.ctx, heartbeat, info, 0).Err())
	beats, err := maintenance.Heartbeats(r.ctx, r.rdb)
	expect.OK(t, err)
	expect.Equal(t, "unable", beats[0].Unable["gone"], "cannot start agent gone: no such file")
	expect.OK(t, r.rdb.HSet(r.ctx, rediskey.For("a:1").Record(), "agent", "gone").Err())
	r.worker(says("default"), named("a:*"))
	r.send("a:1", turnstile.Message{ID: "m", Text: "hello"})
	expect.Soon(t, "it is needed", func() bool {
		s, err := r.client.Session("a:1").Info(r.ctx)
		expect.OK(t, err)
		return s.Needs == "gone"
	})
}
