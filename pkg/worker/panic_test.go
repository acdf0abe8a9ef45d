package worker_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"turnstile"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"google.golang.org/protobuf/encoding/protowire"

	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/wire"
	"turnstile/pkg/agent"
	"turnstile/pkg/agent/echo"
	"turnstile/pkg/session"
	"turnstile/pkg/worker"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// The task of a plain producer may claim to have failed a negative number of times, or more often
// than asynq can count: it is tried like any other, and ends no worker.
func TestImpossibleAttemptCounts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		retried int64
		runs    int
	}{
		"less than none":      {-1, 3},
		"the least":           {-1 << 31, 3},
		"more than 32 bits":   {1<<32 + 1, 2},
		"the most":            {1<<31 - 1, 1},
		"the most of all":     {1<<63 - 1, 3},
		"less than the least": {-1 << 63, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.retriedTask("m1", c.retried)
			runs := make(chan int, 10)
			r.worker(agent.Func(func(_ context.Context, turn *agent.Turn) (agent.Result, error) {
				runs <- turn.Attempt
				return agent.Result{}, agent.Retryable(errors.New("try again"))
			}), with(func(o *worker.Config) { o.RetryBackoff = time.Millisecond }))
			r.ends("m1", session.StatusFailed)
			expect.Equal(t, "runs", len(runs), c.runs)
			r.say("m2", "the session goes on")
			r.ends("m2", session.StatusFailed)
		})
	}
}

// retriedTask enqueues a message of asynq's own Client with a count of failures.
func (r *rig) retriedTask(id string, retried int64) {
	r.Helper()
	payload, err := wire.Message{Text: "hello"}.Payload()
	expect.OK(r, err)
	queue, task := rediskey.Queue(r.key), rediskey.TaskID(r.key, id)
	_, err = asynq.NewClientFromRedisClient(r.rdb).EnqueueContext(r.ctx, asynq.NewTask(wire.TaskType, payload),
		asynq.Queue(queue), asynq.TaskID(task))
	expect.OK(r, err)
	msg := r.rdb.HGet(r.ctx, r.k.Task(task), "msg").Val()
	const fieldRetried = 6 // of asynq's TaskMessage; if a field occurs twice, the last one counts
	field := protowire.AppendVarint(protowire.AppendTag(nil, fieldRetried, protowire.VarintType), uint64(retried))
	expect.OK(r, r.rdb.HSet(r.ctx, r.k.Task(task), "msg", msg+string(field)).Err())
}

// touchy is a log handler that panics at a message.
type touchy struct {
	slog.Handler
	at string
}

func (h touchy) Enabled(context.Context, slog.Level) bool { return true }
func (h touchy) WithAttrs([]slog.Attr) slog.Handler       { return h }

func (h touchy) Handle(_ context.Context, r slog.Record) error {
	if strings.HasPrefix(r.Message, h.at) {
		panic("the logger panics at: " + h.at)
	}
	return nil
}

// A panic outside the agent, in the turn's goroutine or in another, fails the turn, which leaves no entries: the
// worker continues, and so do the turns of other sessions.
func TestPanicBesideTheAgent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		at    string // the message at which the log's handler panics
		fails string // the script that must fail for that message
		has   string // text of the failing call's arguments
		do    func(r *rig, a *act)
	}{
		"its events": {"events were not sent", "emit", "", func(_ *rig, a *act) { a.Emit(agent.Event{Type: session.EventNotice, Text: "x"}) }},
		"its checkpoint": {"the turn's checkpoint was not stored", "journal", "", func(_ *rig, a *act) {
			a.Emit(agent.Event{Type: session.EventText, Text: "x"})
		}},
		"a steer": {"steering failed", "steer", "", func(r *rig, _ *act) { r.say("m2", "to steer", session.ModeSteer) }},
		"its state": {"the agent's state was not stored", "store_state", "", func(_ *rig, a *act) {
			a.Emit(agent.Event{Type: session.EventState, Data: []byte(`{"n":1}`)})
		}},
		"its state at its end": {"the agent's state was not stored", "store_state", `"after":2`, func(_ *rig, a *act) {
			a.Emit(agent.Event{Type: session.EventState, Data: []byte(`{"n":1}`)})
			a.over <- verdict{result: agent.Result{Text: "well"}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, s := newRig(t), newStage()
			var faults redistest.Faults
			r.worker(steerStage{s}, faulty(&faults), with(func(o *worker.Config) {
				o.CheckpointInterval(time.Millisecond)
				o.Logger = slog.New(touchy{slog.DiscardHandler, c.at})
			}))
			other := r.key + "-other"
			r.send(other, turnstile.Message{ID: "o1", Text: "beside it"})
			beside := s.next(t, "o1")
			r.say("m1", "hello")
			a := s.next(t, "m1")
			// Not earlier: on a busy machine the turns' starts are published, and could fail, by
			// then.
			faults.FailBefore(func(cmd redis.Cmder) bool {
				args := fmt.Sprint(cmd.Args()...)
				return script(c.fails)(cmd) && strings.Contains(args, rediskey.Queue(r.key)+"}") && strings.Contains(args, c.has)
			}, 1, redistest.ReplyError("ERR no"))
			c.do(r, a)
			o := r.ends("m1", session.StatusFailed)
			if !strings.Contains(o.Why(), "panicked: the logger panics at: "+c.at) {
				t.Errorf("it failed with %q", o.Why())
			}
			expect.List(t, "transcript", r.transcript(r.key))
			beside.over <- verdict{result: agent.Result{Text: "well"}}
			expect.Equal(t, "the other session", r.outcomeIn(other, "o1").Status, session.StatusDone)
			r.say("m3", "and on")
			for next := range s.acts { // m2 may come first
				next.over <- verdict{}
				if next.Messages[0].ID == "m3" {
					break
				}
			}
			r.ends("m3", session.StatusDone)
		})
	}
}

// An agent may ask on another goroutine, as the one for commands does: a panic there is returned to
// the agent, too, and ends the turn but not the worker.
func TestPanicOfAQuestion(t *testing.T) {
	t.Parallel()
	r, s := newRig(t), newStage()
	r.worker(s, askTimeout(10*time.Millisecond), with(func(o *worker.Config) {
		o.Logger = slog.New(touchy{slog.DiscardHandler, "no decision on the agent's question in time"})
	}))
	r.say("m1", "hello")
	a := s.next(t, "m1")
	got := expect.Received(t, "the decision", a.ask(a.ctx, r, "run make"))
	if got.err == nil || got.Allowed() {
		t.Errorf("the decision is %+v", got)
	}
	if o := r.ends("m1", session.StatusFailed); !strings.Contains(o.Why(), "a question panicked: the logger panics") {
		t.Errorf("it failed with %q", o.Why())
	}
	r.say("m2", "and on")
	s.next(t, "m2").reply("ok")
	r.ends("m2", session.StatusDone)
}

func TestPanicOfTheObserver(t *testing.T) {
	t.Parallel()
	for at, status := range map[string]session.Status{"start": session.StatusFailed, "end": session.StatusDone} {
		panicAt := func(where string) {
			if at == where {
				panic(fmt.Sprintf("the observer panics at the %s", where))
			}
		}
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.worker(echo.New(), with(func(o *worker.Config) {
				o.Observer.MessageStarted = func(time.Duration) { panicAt("start") }
				o.Observer.TurnEnded = func(worker.TurnEnd) { panicAt("end") }
			}))
			for _, id := range []string{"m1", "m2"} {
				r.say(id, "hello")
				r.ends(id, status)
			}
		})
	}
}
