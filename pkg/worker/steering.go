package worker

import (
	"context"
	"sync"

	"turnstile/internal/protocol"
	"turnstile/internal/turnlog"
	"turnstile/pkg/agent"
)

// steering hands messages to a running agent. Redis makes them a part of the turn before the agent
// is offered them. Those that the agent has not accepted when it ends are put back into the queue.
// The value is nil if the agent takes no steers.
type steering struct {
	claim   *protocol.Claim
	output  *turnlog.Log
	refused func(protocol.Taken) bool // reports messages that must not run
	containment

	offers chan agent.Steer
	ctx    context.Context
	cancel context.CancelFunc

	waits   chan struct{} // receives when messages may wait
	begin   sync.Once     // of run, with the first message: most turns have none
	done    sync.WaitGroup
	offered []string              // IDs taken from the queue. Only run writes it
	again   []string              // IDs of messages that an earlier run has taken
	earlier chan []protocol.Taken // these messages
}

func newSteering(claim *protocol.Claim, output *turnlog.Log, c containment, refused func(protocol.Taken) bool) *steering {
	s := &steering{claim: claim, output: output, refused: refused, containment: c, offers: make(chan agent.Steer), waits: make(chan struct{}, 1), earlier: make(chan []protocol.Taken, 1)}
	s.ctx, s.cancel = context.WithCancel(claim.Lease().Context())
	return s
}

// wake reports that a message waits to be steered in.
func (s *steering) wake() {
	if s == nil {
		return
	}
	select {
	case s.waits <- struct{}{}:
	default:
	}
	s.begin.Do(func() { s.done.Go(s.run) })
}

// offerAgain offers messages that an earlier run of the turn has taken, and of which its output does not tell.
func (s *steering) offerAgain(messages []protocol.Taken) {
	for _, m := range messages {
		s.again = append(s.again, m.Message.ID)
	}
	s.earlier <- messages
	s.begin.Do(func() { s.done.Go(s.run) })
}

func (s *steering) run() {
	defer s.contain("steering it")
	for {
		var messages []protocol.Taken
		select {
		case messages = <-s.earlier:
		case <-s.waits:
			messages = s.steer()
		case <-s.ctx.Done():
			return
		}
		for _, m := range messages {
			if s.refused(m) {
				continue // it is put back, and refused as a separate turn
			}
			select {
			case s.offers <- agent.NewSteer(m.Message.Said(), func() { s.output.Steered(m.Message) }):
			case <-s.ctx.Done():
				return
			}
		}
	}
}

// steer makes waiting messages a part of the turn.
func (s *steering) steer() []protocol.Taken {
	if s.ctx.Err() != nil {
		return nil
	}
	// Not s.ctx: the turn's end must know which messages Redis has made a part of it.
	messages, err := s.claim.Steer(s.claim.Lease().Context())
	if err != nil {
		s.log.Warn("steering failed, the message waits for its turn", "error", err)
		return nil
	}
	for _, m := range messages {
		s.offered = append(s.offered, m.Message.ID)
	}
	if s.claim.SteerWaits() {
		s.wake()
	}
	return messages
}

// stop ends the steering and waits for it. It may be called twice.
func (s *steering) stop() {
	if s == nil {
		return
	}
	s.cancel()
	s.begin.Do(func() {}) // it does not begin any more
	s.done.Wait()
}

// taken returns the IDs of the messages that the agent was or was to be offered. Call it after stop.
func (s *steering) taken() []string {
	if s == nil {
		return nil
	}
	return append(s.again, s.offered...)
}
