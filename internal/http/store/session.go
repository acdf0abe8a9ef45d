package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
)

// DropResult deletes a message whose result is kept, with its text, and reports whether it was there. The transcript
// keeps what the message and its turn have said.
func (s *Store) DropResult(ctx context.Context, sessionKey, id string) (bool, error) {
	there, err := protocol.DiscardResult(ctx, s.rdb, sessionKey, rediskey.TaskID(sessionKey, id))
	if err != nil {
		return false, fmt.Errorf("drop the result of message %s of %s: %w", id, sessionKey, err)
	}
	return there, nil
}

// Created returns when a session's record was made, by Redis' clock. Zero: the session is unknown.
func (s *Store) Created(ctx context.Context, sessionKey string) (at time.Time, err error) {
	ms, err := s.rdb.HGet(ctx, rediskey.For(sessionKey).Record(), "created_at").Int64()
	switch {
	case errors.Is(err, redis.Nil):
		return at, nil
	case err != nil:
		return at, fmt.Errorf("read session %s: %w", sessionKey, err)
	}
	return time.UnixMilli(ms), nil
}
