package agent

import (
	"sync"

	"turnstile/pkg/session"
)

// Steer is a message that arrived while a turn runs and may join it.
//
// An agent receives from Turn.Steers where it can take a message in, between two tools for example,
// and then calls Accept. It need not receive at all. A message that it has not accepted when Run
// returns goes back into the session's queue and becomes another turn, so none is lost.
type Steer struct {
	Message session.Message
	accept  func()
}

// NewSteer makes a Steer for a program that fills Host.Steers. accept may be nil. It is called at
// most once, from any goroutine of the agent. It must not block for long.
func NewSteer(m session.Message, accept func()) Steer {
	if accept != nil {
		accept = sync.OnceFunc(accept)
	}
	return Steer{m, accept}
}

// Accept reports that the agent has the message. The message then belongs to the turn and shares
// its outcome. Its text becomes an entry of the transcript at this point, after the events so far.
// Accept must be called before Run returns. Calling it again does nothing.
func (s Steer) Accept() {
	if s.accept != nil {
		s.accept()
	}
}
