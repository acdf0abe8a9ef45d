package store

import (
	"context"
	"fmt"

	"turnstile/internal/protocol"
	"turnstile/internal/rediskey"
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
