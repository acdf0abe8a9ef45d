package worker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/pkg/worker"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// race is a session with the message m1, a worker, and an agent that replies at once. If the worker is
// to drain, its turn of m1 waits for the interrupt.
type race struct {
	*rig
	w       *worker.Worker
	drained <-chan bool   // nil: the worker is not drained
	waits   chan struct{} // receives the first turn of m1; nil: it does not wait
	erased  bool

	mu   sync.Mutex
	runs map[string]int // replies to each message
}

func (x *race) Run(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
	if x.waits != nil {
		select {
		case x.waits <- struct{}{}:
			<-ctx.Done()
			return agent.Result{}, context.Cause(ctx)
		default:
		}
	}
	for _, m := range turn.Messages {
		x.ran(m.ID)
	}
	return agent.Result{Text: "ok"}, nil
}

func (x *race) ran(id string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.runs[id]++
}

// workerRivals are actions of others while a worker waits for its next command. Each sends the
// message "new" last.
var workerRivals = map[string]func(x *race){
	"sends":   func(*race) {},
	"stops":   func(x *race) { _, err := x.client.Session(x.key).Stop(x.ctx); expect.OK(x, err) },
	"rotates": func(x *race) { _, err := x.client.Session(x.key).NewTranscript(x.ctx); expect.OK(x, err) },
	"erases": func(x *race) {
		err := x.client.Operate(x.key).Erase(x.ctx)
		if x.erased = err == nil; err != nil && !errors.Is(err, session.ErrBusy) {
			x.Error(err)
		}
	},
	"another worker": func(x *race) {
		claims, err := actors.NewWorker(x.T, x.rdb, "other").Claim(x.ctx, []string{x.key})
		expect.OK(x, err)
		for _, c := range claims {
			for more := true; more; {
				x.ran(c.Turn().Message.ID)
				more, err = c.Finish(x.ctx, protocol.End{Status: session.StatusDone, Reply: "ok"})
				expect.OK(x, err)
			}
		}
	},
	"a drain": func(x *race) {
		if x.drained == nil {
			x.drained = drainFor(x.w, worker.ReasonRestart)
			expect.Soon(x, "the drain", x.w.Draining)
		}
	},
}

// handing are the commands by which a worker takes sessions and releases them or puts them back.
func handing(cmd redis.Cmder) bool {
	index := func(name string) bool { return slices.Contains(cmd.Args(), any(name)) }
	return slices.Contains([]string{"claim", "promote", "unclaim", "mark", "park"}, actors.ScriptOf(cmd)) || actors.FastPath(cmd) ||
		redistest.Named("zpopmin", "bzpopmin", "zadd")(cmd) && (index(rediskey.Ready) || index(rediskey.Owned))
}

// A rival that comes before any command by which a worker takes or releases a session: no message is
// lost or has two replies, and a stop counts. The session is put back when a drain begins after the pop.
func TestRivalsOfAWorker(t *testing.T) {
	t.Parallel()
	expect.Unraced(t)
	const commands = 6
	for _, operation := range []string{"dispatch", "put back", "drain"} {
		for name, rival := range workerRivals {
			var came atomic.Int64
			t.Run(operation+" - "+name, func(t *testing.T) {
				for n := range commands {
					t.Run(fmt.Sprint("before command ", n+1), func(t *testing.T) {
						t.Parallel()
						if beforeCommand(t, int64(n+1), operation, rival, name) {
							came.Add(1)
						}
					})
				}
			})
			expect.Equal(t, "commands to stop before", came.Load() >= 2, true)
		}
	}
}

func beforeCommand(t *testing.T, n int64, operation string, rival func(*race), name string) bool {
	t.Helper()
	var f redistest.Faults
	var counts atomic.Bool
	var seen atomic.Int64
	gate := f.Gate(func(cmd redis.Cmder) bool { return counts.Load() && handing(cmd) && seen.Add(1) == n })
	defer gate.Release()
	x := &race{rig: newRig(t), runs: map[string]int{}}
	if operation == "drain" {
		x.waits = make(chan struct{}, 1)
	}
	var popped *redistest.Gate
	if operation == "put back" {
		popped = f.GateReply(redistest.Named("zpopmin"))
	}
	x.say("m1", "hello")
	x.w = x.idle(x, faulty(&f), slots(1), drainTimeout(0), sentinelTTL(time.Minute))
	counts.Store(operation == "dispatch")
	go func() { _ = x.w.Start(x.ctx) }()
	switch operation {
	case "put back": // a drain begins while the session is popped
		expect.Received(t, "the session", popped.Arrived())
		x.drained = drainFor(x.w, worker.ReasonShutdown)
		expect.Soon(t, "the drain", x.w.Draining)
		counts.Store(true)
		popped.Release()
	case "drain":
		expect.Soon(t, "the turn", func() bool { return len(x.waits) == 1 })
		counts.Store(true)
		x.drained = drainFor(x.w, worker.ReasonShutdown)
	}
	select {
	case cmd := <-gate.Arrived():
		t.Log("before", cmd.Name(), actors.ScriptOf(cmd))
		rival(x)
		x.say("new", "hello")
		gate.Release()
	case <-x.drained:
		return false // it has no n-th command
	case <-time.After(patience):
		t.Fatal("nothing came")
	}
	if x.drained != nil {
		expect.Received(t, "the end of the drain", x.drained)
		x.worker(x, slots(1))
	}
	x.ends("new", session.StatusDone)
	for id, n := range x.runs {
		expect.Equal(t, "replies to "+id, n, 1)
	}
	o, _, err := actors.Result(x.ctx, x.client.Session(x.key), "m1")
	switch {
	case x.erased:
		expect.Equal(t, "erased", errors.Is(err, session.ErrNotFound), true)
	case name == "stops" && (operation == "drain" || x.runs["m1"] == 0):
		expect.Equal(t, "status of m1", o.Status, session.StatusStopped)
	case name != "stops":
		expect.Equal(t, "status of m1", o.Status, session.StatusDone)
	}
	return true
}
