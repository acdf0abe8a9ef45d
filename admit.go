package turnstile

import (
	"context"
	"fmt"

	"turnstile/internal/protocol"
	"turnstile/internal/rediskey"
)

// admit reports whether a message may join those that wait in all sessions. A message that is
// stored already may, and so may one for a session with an owner: LineCap bounds its line. It makes
// a round trip only if there is a cap.
func (c *Client) admit(ctx context.Context, sessionKey, id string) (bool, error) {
	if c.cfg.MessagesCap == 0 {
		return true, nil
	}
	ok, err := protocol.Admit(ctx, c.rdb, sessionKey, rediskey.TaskID(sessionKey, id), c.cfg.MessagesCap)
	if err != nil {
		err = fmt.Errorf("count the messages that wait before message %s of %s: %w", id, sessionKey, err)
	}
	return ok, err
}
