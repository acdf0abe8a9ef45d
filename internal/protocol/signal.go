package protocol

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/stream"
	"turnstile/pkg/session"
)

// Signal notifies a worker of a request to its turn. Signals may get lost: the next renewal, or the
// ready index, has the same.
type Signal struct {
	// Requested is ErrStopRequested, ErrInterruptRequested or ErrRollbackRequested. It is nil if
	// Steer is set (a message waits to be steered into the turn), Decided (the user has decided
	// about the agent's question) or Session.
	Requested error
	Steer     bool
	Decided   Decided

	// Token and Fence identify the turn. A stop by asynqmon's Cancel has TaskID instead, and goes
	// to every worker.
	Token  string
	Fence  int64
	TaskID string

	// Session is set if no turn runs: a message arrived for a session that this worker ran last.
	Session string
}

// Signals calls receive for each signal to this worker, until ctx ends. It calls ready once it is
// subscribed. Meanwhile it sends the notices that clients ask for.
func (c *Consumer) Signals(ctx context.Context, ready func(), receive func(Signal)) error {
	own, watched := rediskey.Signal(c.cfg.Worker), rediskey.Signal(stream.WatchSignals)
	ctx, stop := context.WithCancel(ctx)
	var publisher sync.WaitGroup
	publisher.Go(func() { c.readers.Publish(ctx, c.rdb) })
	defer publisher.Wait()
	defer stop()
	started := func() {
		_ = c.rdb.Publish(ctx, rediskey.Signal(stream.WorkerSignals), c.cfg.Worker).Err() // readers repeat their requests anyway
		ready()
	}
	return stream.Subscribe(ctx, c.rdb, []string{own, rediskey.AsynqCancel, watched}, started, func(m *redis.Message) {
		if m.Channel == watched {
			c.readers.Add(m.Payload)
		} else if s, ok := parseSignal(m, own); ok {
			receive(s)
		}
	})
}

func parseSignal(m *redis.Message, own string) (Signal, bool) {
	if m.Channel != own {
		return Signal{Requested: ErrStopRequested, TaskID: m.Payload}, true
	}
	var wire struct {
		Kind, Token, Session string
		Fence                int64
		Question             int
		Answer               session.Decision
		By                   string
	}
	if json.Unmarshal([]byte(m.Payload), &wire) != nil {
		return Signal{}, false
	}
	s := Signal{Requested: requested(wire.Kind), Steer: wire.Kind == "steer", Token: wire.Token, Fence: wire.Fence}
	if wire.Kind == "ready" {
		s.Session = wire.Session
	}
	if wire.Kind == "answer" {
		s.Decided = Decided{wire.Question, wire.Answer, wire.By}
	}
	return s, s.Requested != nil || s.Decided.Question != 0 || s.Steer || s.Session != ""
}
