package store

import (
	"context"

	"turnstile/internal/protocol/stream"
)

// LastEventID returns the ID of a session's last event, "" if there is none. The error wraps
// session.ErrInvalid if the key is wrong.
func (s *Store) LastEventID(ctx context.Context, sessionKey string) (string, error) {
	return stream.LastEventID(ctx, s.rdb, sessionKey)
}

// LastEventIDAt is LastEventID as it was at a time of Redis' clock in ms, as far as the stream still has
// the events of that time.
func (s *Store) LastEventIDAt(ctx context.Context, sessionKey string, ms int64) (string, error) {
	return stream.LastEventIDAt(ctx, s.rdb, sessionKey, ms)
}
