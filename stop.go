package turnstile

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
	"turnstile/internal/rediskey"
	"turnstile/pkg/session"
)

// Stop cancels the running turn and archives the waiting messages. One script does both, so none of
// these messages runs. Later messages are not affected. A long line is archived in batches; if ctx
// ends before the last one, a worker archives the rest. An idle session is no error.
// admin.Client.Rerun puts the messages back in line.
//
// The error wraps session.ErrInvalid if the session key is wrong, and session.ErrUnchanged if
// nothing was stopped: also when the request reached Redis after ctx's deadline, or more than 10 s
// late.
func (c *Client) Stop(ctx context.Context, sessionKey string) (session.Stopped, error) {
	if err := session.ValidateKey(sessionKey); err != nil {
		return session.Stopped{}, err
	}
	name := rand.Text()
	now, until, err := c.giveUpAt(ctx, sessionKey)
	if err != nil {
		return session.Stopped{}, fmt.Errorf("stop %s: %w", sessionKey, protocol.Unchanged(err, false))
	}
	var s session.Stopped
	for number := 1; ; {
		found, err := protocol.Stop{Session: sessionKey, Name: name, Number: number, Until: until, Limits: c.cfg.Limits}.Do(ctx, c.rdb)
		switch {
		case err != nil && number == 1:
			return s, fmt.Errorf("stop %s: %w", sessionKey, protocol.Unchanged(err, false))
		case err != nil:
			return s, fmt.Errorf("stop %s: %w", sessionKey, err)
		case found.Late:
			return s, fmt.Errorf("stop %s: %w", sessionKey, errLate)
		case found.Earlier:
			continue
		}
		s = session.Stopped{Phase: found.Phase, Fence: found.Fence, Dropped: found.Dropped}
		if !found.More {
			if s.Dropped > 0 {
				_ = protocol.NeedAttention(ctx, c.rdb, now, sessionKey)
			}
			return s, nil
		}
		if number == 1 {
			// If this process dies, reap finds the session and a worker archives the rest. A full
			// Redis refuses this entry; then the sweep finds it.
			grace := redis.Z{Score: float64(now + protocol.ClaimGrace.Milliseconds()), Member: sessionKey}
			_ = c.rdb.ZAddLT(ctx, rediskey.Owned, grace).Err()
		}
		number++
	}
}
