package exec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

// steerLine is a line of a command's stdin after the turn's.
type steerLine struct {
	Type    string          `json:"type"` // steer
	Message session.Message `json:"message"`
}

// steering sends a turn's steers to its command once the command has announced that it takes them,
// and accepts those that the command acknowledges.
type steering struct {
	from     <-chan agent.Steer
	ready    chan struct{} // closed by announced
	announce sync.Once

	mu   sync.Mutex
	sent map[string]agent.Steer // by their messages' IDs
}

func newSteering(from <-chan agent.Steer) *steering {
	return &steering{from: from, ready: make(chan struct{}), sent: map[string]agent.Steer{}}
}

// announced lets feed begin.
func (s *steering) announced() { s.announce.Do(func() { close(s.ready) }) }

// feed writes steers to the command's stdin until ctx ends or the command has closed it. A command
// that does not read blocks only the one steer that is being written, until the caller closes w.
// The others are not received.
func (s *steering) feed(ctx context.Context, w io.Writer) {
	select {
	case <-s.ready:
	case <-ctx.Done():
		return
	}
	for ctx.Err() == nil { // else a select may still choose a steer
		select {
		case steer := <-s.from:
			if s.send(steer, w) != nil {
				return // not acknowledged, so not lost
			}
		case <-ctx.Done():
			return
		}
	}
}

func (s *steering) send(steer agent.Steer, w io.Writer) error {
	data, err := json.Marshal(steerLine{"steer", steer.Message})
	if err != nil {
		return fmt.Errorf("encode a steer: %w", err)
	}
	s.mu.Lock()
	s.sent[steer.Message.ID] = steer // before the command can respond
	s.mu.Unlock()
	_, err = w.Write(append(data, '\n'))
	return err
}

// acknowledged accepts a steer. A second call is harmless. An ID that was never sent is an error:
// the agent either takes a message for received that it has not, or leaves one unacknowledged that
// would run twice.
func (s *steering) acknowledged(id string) error {
	if id == "" {
		return errors.New("a steered needs the id of its steer")
	}
	s.mu.Lock()
	steer, ok := s.sent[id]
	s.mu.Unlock()
	if !ok {
		return fmt.Errorf("steered: no steer with the id %.128q was sent", id)
	}
	steer.Accept()
	return nil
}
