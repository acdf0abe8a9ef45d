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

// Stop ends the turn that runs now, and archives the messages that wait now: these
// two in one instant, so that no message that waits then is run. A message that comes
// later is not meant, nor is a turn. Of a long line the rest is archived by further
// calls; should ctx end before, a worker does that.
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
			return s, nil
		}
		if number == 1 {
			// Should this process die, reap is to find the rest. A full Redis refuses it,
			// and leaves that to the sweep.
			grace := redis.Z{Score: float64(now + protocol.ClaimGrace.Milliseconds()), Member: sessionKey}
			_ = c.rdb.ZAddLT(ctx, rediskey.Owned, grace).Err()
		}
		number++
	}
}
