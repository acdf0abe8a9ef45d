package engine

import (
	"context"
	"slices"
	"sync"

	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

// steering hands messages to a running agent. In Redis they become a part of the
// turn before the agent is offered them; those that it has not accepted when it
// ends are put back. A nil steering is that of an agent that takes none.
type steering struct {
	turn   *turn
	offers chan agent.Steer
	ctx    context.Context
	cancel context.CancelFunc

	mu      sync.Mutex
	over    bool // no message is accepted any more
	asked   bool // there is something to take
	running bool
	done    sync.WaitGroup
	offered []string // ids that were taken and are not accepted yet
}

func newSteering(t *turn) *steering {
	s := &steering{turn: t, offers: make(chan agent.Steer)}
	s.ctx, s.cancel = context.WithCancel(t.hold.Lease().Context())
	return s
}

func (s *steering) channel() <-chan agent.Steer {
	if s == nil {
		return nil
	}
	return s.offers
}

// wake says that a message waits that is to be steered in.
func (s *steering) wake() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = true
	if s.over || s.running {
		return
	}
	s.running = true
	s.done.Add(1)
	go s.run()
}

func (s *steering) run() {
	defer s.done.Done()
	defer s.turn.contain("steering it")
	for {
		s.mu.Lock()
		if !s.asked || s.over {
			s.running = false
			s.mu.Unlock()
			return
		}
		s.asked = false
		s.mu.Unlock()
		// Not s.ctx: the turn's end has to know what Redis counts among its messages.
		messages, err := s.turn.hold.Steer(s.turn.hold.Lease().Context())
		if err != nil {
			s.turn.log.Warn("steering failed, the message waits for its turn", "error", err)
			continue
		}
		s.mu.Lock()
		for _, m := range messages {
			s.offered = append(s.offered, m.Message.ID)
		}
		s.asked = s.asked || s.turn.hold.SteerWaits()
		s.mu.Unlock()
		for _, m := range messages {
			if _, bad := s.turn.verdict(m); bad {
				continue // put back, and judged as a turn of its own
			}
			select {
			case s.offers <- agent.NewSteer(agentMessage(m.Message), func() { s.accept(m.Message) }):
			case <-s.ctx.Done():
				return
			}
		}
	}
}

// accept is called by the agent when it has the message.
func (s *steering) accept(m session.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return
	}
	s.offered = slices.DeleteFunc(s.offered, func(id string) bool { return id == m.ID })
	s.turn.recorder.steered(m)
}

// stop ends the steering and waits for it; it may be called twice.
func (s *steering) stop() {
	if s == nil {
		return
	}
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	s.cancel()
	s.done.Wait()
}

// untaken are the messages to put back. Call it after stop.
func (s *steering) untaken() []string {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.offered
}

// steer asks for a steer into the turn with a fence.
func (s *served) steer(fence int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turn != nil && s.turn.Fence == fence {
		s.turn.steering.wake()
	}
}
