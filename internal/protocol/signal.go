package protocol

import (
	"context"
	"encoding/json"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/rediskey"
	"turnstile/pkg/session"
)

// Signal tells a worker what is asked of a turn. It is a courtesy: the same is
// answered by the next renewal, or found in the ready index.
type Signal struct {
	// Asked is ErrStopAsked, ErrInterruptAsked, ErrRollbackAsked, or nil where Steer
	// is set: a message waits that is to be steered into the turn; or where Reply is:
	// the user has answered the agent's question.
	Requested error
	Steer     bool
	Decided   Decided

	// Token and Fence name the turn that is meant. A stop by asynqmon's Cancel
	// names TaskID instead, and is published to every worker.
	Token  string
	Fence  int64
	TaskID string

	// Session is set where nothing runs: a message has come for a session that this
	// worker had last.
	Session string
}

// subscribeTimeout bounds the wait for the subscription at the start, should Redis
// hang.
const subscribeTimeout = 5 * time.Second

// Signals passes on what is asked of this worker's turns, until ctx ends. ready
// is called once the subscription stands.
func (c *Consumer) Signals(ctx context.Context, ready func(), hear func(Signal)) error {
	own := rediskey.Signal(c.cfg.Worker)
	sub := c.rdb.Subscribe(ctx, own, rediskey.AsynqCancel)
	defer sub.Close()
	if _, err := sub.ReceiveTimeout(ctx, subscribeTimeout); err != nil && ctx.Err() != nil {
		return nil
	}
	ready() // even on an error: go-redis subscribes again by itself
	messages := sub.Channel()
	for {
		select {
		case <-ctx.Done():
			return nil
		case m, open := <-messages:
			if !open {
				return redis.ErrClosed // the caller has closed the client
			}
			if s, ok := parseSignal(m, own); ok {
				hear(s)
			}
		}
	}
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
	}
	if json.Unmarshal([]byte(m.Payload), &wire) != nil {
		return Signal{}, false
	}
	s := Signal{Requested: requested(wire.Kind), Steer: wire.Kind == "steer", Token: wire.Token, Fence: wire.Fence}
	if wire.Kind == "ready" {
		s.Session = wire.Session
	}
	if wire.Kind == "answer" {
		s.Decided = Decided{wire.Question, wire.Answer}
	}
	return s, s.Requested != nil || s.Decided.Question != 0 || s.Steer || s.Session != ""
}
