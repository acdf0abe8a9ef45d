//go:build linux

package kills_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"turnstile"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// turnsEach is how many messages a session gets, all at once.
const turnsEach = 2

// chat is a session and what became of its messages.
type chat struct {
	session  *turnstile.Session
	messages []string
	outcomes map[string]session.Outcome
}

// use has sessions, one after the other, until all kills are made.
func (w *world) use(kind string, client *actors.Client) {
	for w.killer.goesOn(kind) {
		w.mu.Lock()
		key := fmt.Sprintf("%s:%d", kind, len(w.chats))
		c := &chat{session: client.Session(key), outcomes: map[string]session.Outcome{}}
		w.chats = append(w.chats, c)
		w.mu.Unlock()
		for i := range turnsEach {
			c.messages = append(c.messages, fmt.Sprintf("%s.%d", key, i))
		}
		if err := c.talk(w.Context()); err != nil {
			w.Errorf("%s: %v", key, err)
			return
		}
	}
}

func (c *chat) talk(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, expect.Patience, errors.New("a message does not end"))
	defer cancel()
	for _, id := range c.messages {
		for {
			_, err := c.session.Send(ctx, turnstile.Message{ID: id, Text: id})
			if err == nil {
				break
			}
			if errors.Is(err, session.ErrInvalid) {
				return err
			}
			select { // Redis is being started again; the id makes the repetition safe
			case <-time.After(20 * time.Millisecond):
			case <-ctx.Done():
				return errors.Join(context.Cause(ctx), err)
			}
		}
	}
	for _, id := range c.messages {
		end, err := c.session.Wait(ctx, id)
		if err != nil {
			return fmt.Errorf("wait for %s: %w", id, err)
		}
		c.outcomes[id] = end
	}
	return nil
}
