package turnstile

import (
	"context"
	"fmt"
	"time"

	"turnstile/internal/protocol"
	"turnstile/internal/rediskey"
	"turnstile/pkg/session"
)

// eventsRecheck is how often Events reads a stream that has no new events: another one may have taken
// its place, after an erase or a failover.
const eventsRecheck = 30 * time.Second

// Events calls see for each event of a session behind the event with the id after
// (session.Event.ID): those of every turn, and those that come later, until ctx ends or see returns
// an error. Events returns ctx's cause or see's error. An empty id means all events that the stream
// still has.
//
// It calls see once for each event, in order, from the caller's goroutine, and continues after lost
// connections. A new session id (/new) changes nothing. If the stream has lost events behind after,
// or was trimmed faster than it was read, see first gets a session.EventGap. If the stream never had
// that event, because the session was erased or Redis has lost its last writes, see gets a
// session.EventReset and then the stream from its beginning. The error wraps session.ErrInvalid if
// the key or after is invalid.
//
// The last piece of a reply may be in its turn's end only, not in a text event.
func (c *Client) Events(ctx context.Context, sessionKey, after string, see func(session.Event) error) error {
	if err := session.ValidateKey(sessionKey); err != nil {
		return err
	}
	var place protocol.EventID
	if after != "" {
		var err error
		if place, err = protocol.ParseEventID(after); err != nil {
			return err
		}
	}
	stream := rediskey.For(sessionKey).Events()
	return persist(ctx, func() (ended bool, err error) {
		events, behind, more, err := protocol.EventsAfter(ctx, c.rdb, sessionKey, place, eventsPage)
		if err != nil {
			return false, fmt.Errorf("read events of %s: %w", sessionKey, err)
		}
		for _, e := range events {
			if ctx.Err() != nil {
				return true, context.Cause(ctx)
			}
			if err := see(e); err != nil {
				return true, err
			}
		}
		if place = behind; more {
			return false, nil
		}
		if err := c.waits.await(ctx, stream, place.Entry(), eventsRecheck); err != nil {
			return false, fmt.Errorf("wait for events of %s: %w", sessionKey, err)
		}
		return false, nil
	})
}
