package worker

import (
	"context"
	"slices"
	"sync"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/wire"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

// steering hands messages to a running agent. Redis makes them a part of the turn before the agent
// is offered them. Those that the agent has not accepted when it ends are put back into the queue.
// The value is nil if the agent takes no steers.
type steering struct {
	claim    *protocol.Claim
	recorder *recorder
	refused  func(protocol.Taken) bool // reports messages that must not run
	containment

	offers chan agent.Steer
	ctx    context.Context
	cancel context.CancelFunc

	mu      sync.Mutex
	state   steeringState
	again   bool // a message has arrived since the last check
	done    sync.WaitGroup
	offered []string         // IDs of the turn's messages that are not accepted yet
	earlier []protocol.Taken // of these, those that an earlier run has taken
}

// steeringState is the state of a steering.
type steeringState int

const (
	steerIdle    steeringState = iota
	steerOffers                // a goroutine takes messages and offers them
	steerStopped               // no message is taken or accepted any more
)

func newSteering(r *recorder, refused func(protocol.Taken) bool) *steering {
	s := &steering{
		claim: r.claim, recorder: r, refused: refused, containment: r.containment, offers: make(chan agent.Steer),
	}
	s.ctx, s.cancel = context.WithCancel(r.claim.Lease().Context())
	return s
}

// wake reports that a message waits to be steered in.
func (s *steering) wake() {
	if s != nil {
		s.offer(nil)
	}
}

// offer is wake, with messages that an earlier run of the turn has taken.
func (s *steering) offer(earlier []protocol.Taken) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.again = true
	s.earlier = append(s.earlier, earlier...)
	for _, m := range earlier {
		s.offered = append(s.offered, m.Message.ID)
	}
	if s.state == steerIdle {
		s.state = steerOffers
		s.done.Go(s.run)
	}
}

// more reports whether messages may wait, and otherwise ends the run.
func (s *steering) more() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	more := s.again && s.state == steerOffers
	s.again = false
	if !more && s.state == steerOffers {
		s.state = steerIdle
	}
	return more
}

func (s *steering) run() {
	defer s.contain("steering it")
	for s.more() {
		// Not s.ctx: the turn's end must know which messages Redis has made a part of it.
		messages, err := s.claim.Steer(s.claim.Lease().Context())
		if err != nil {
			s.log.Warn("steering failed, the message waits for its turn", "error", err)
			continue
		}
		s.mu.Lock()
		for _, m := range messages {
			s.offered = append(s.offered, m.Message.ID)
		}
		messages, s.earlier = append(s.earlier, messages...), nil
		s.again = s.again || s.claim.SteerWaits()
		s.mu.Unlock()
		for _, m := range messages {
			if s.refused(m) {
				continue // it is put back, and refused as a separate turn
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
func (s *steering) accept(m wire.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == steerStopped {
		return
	}
	s.offered = slices.DeleteFunc(s.offered, func(id string) bool { return id == m.ID })
	s.recorder.steered(m)
}

// stop ends the steering and waits for it. It may be called twice.
func (s *steering) stop() {
	if s == nil {
		return
	}
	s.mu.Lock()
	s.state = steerStopped
	s.mu.Unlock()
	s.cancel()
	s.done.Wait()
}

// untaken returns the messages to put back. Call it after stop.
func (s *steering) untaken() []string {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.offered
}

// agentMessage converts a message to the agent's type.
func agentMessage(m wire.Message) session.Message {
	return m.Said()
}
