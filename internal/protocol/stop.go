package protocol

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/rediskey"
	"turnstile/pkg/session"
)

// stopBatch is how many messages, and how many bytes of them or one, a call archives
// of what a Stop has put aside.
const stopBatch = "500 4194304"

// Stopped is what Stop found.
type Stopped struct {
	Phase   string // of the turn that was told to end: idle, starting or running
	Fence   int64  // that turn
	Dropped int    // messages that waited and are archived as "stopped by user", by whomever
}

// Stop ends the turn that runs now, and archives the messages that wait now: these
// two in one instant, so that no message that waits then is run. A message that comes
// later is not meant, nor is a turn. Of a long line the rest is archived by further
// calls; should ctx end before, a worker does that.
func (c *Client) Stop(ctx context.Context, sessionKey string) (Stopped, error) {
	if err := session.ValidateKey(sessionKey); err != nil {
		return Stopped{}, err
	}
	k, name := rediskey.For(sessionKey), rand.Text()
	now, until, err := c.giveUpAt(ctx, sessionKey)
	if err != nil {
		return Stopped{}, fmt.Errorf("stop %s: %w", sessionKey, unchanged(err))
	}
	var s Stopped
	for number := 1; ; {
		reply, err := run(ctx, c.rdb, stopScript(), append(keys(sessionKey, "", time.Now()), k.Call(name)),
			k.TaskPrefix(), session.IDPrefix(sessionKey), stopBatch, number, senderEvents, until, c.cfg.Limits.Task())
		switch {
		case err != nil && number == 1:
			return s, fmt.Errorf("stop %s: %w", sessionKey, unchanged(err))
		case err != nil:
			return s, fmt.Errorf("stop %s: %w", sessionKey, err)
		case reply.str(0) == "late":
			return s, fmt.Errorf("stop %s: %w", sessionKey, errLate)
		case reply.str(0) == "earlier":
			continue
		}
		s = Stopped{Phase: reply.str(0), Fence: reply.int(1), Dropped: int(reply.int(2))}
		if reply.int(3) == 0 {
			return s, nil
		}
		if number == 1 {
			// Should this process die, reap is to find the rest. A full Redis refuses it,
			// and leaves that to the sweep.
			grace := redis.Z{Score: float64(now + claimGrace.Milliseconds()), Member: sessionKey}
			_ = c.rdb.ZAddLT(ctx, rediskey.Owned, grace).Err()
		}
		number++
	}
}
