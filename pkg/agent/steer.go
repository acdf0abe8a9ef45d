package agent

import "sync"

// Steerable is implemented by agents whose running turns can take further
// messages. Only their turns have Turn.Steers.
type Steerable interface{ Steerable() bool }

// Steer is a message that arrived while a turn runs and may join it.
//
// An agent receives from Turn.Steers when it comes to a boundary where it can
// take a message in, between two tools for example, and calls Accept when it
// has. It need not receive at all. What it received and had not accepted when
// Run returns goes back into the session's line, as what it never received
// stays there, and becomes a turn of its own: nothing is lost.
type Steer struct {
	Message Message
	accept  func()
}

// NewSteer is for whoever hands out steers. accept may be nil. It is called at
// most once, from any goroutine of the agent, and as emit does not block for
// long.
func NewSteer(m Message, accept func()) Steer {
	if accept != nil {
		accept = sync.OnceFunc(accept)
	}
	return Steer{m, accept}
}

// Accept says that the agent has the message. From then on it belongs to the
// turn: it ends as the turn's own messages do, and at this point, after what
// was emitted so far, its text is an entry of the transcript. It must be called
// before Run returns. Calling it again does nothing.
func (s Steer) Accept() {
	if s.accept != nil {
		s.accept()
	}
}
