package turnstile

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/index"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/session"
)

// Stop cancels the running turn and archives the waiting messages. One script does both, so none of
// these messages runs. Later messages are not affected. A long queue is archived in batches; if ctx
// ends before the last one, a worker archives the rest. An idle session is no error.
// admin.Session.Rerun puts the messages back in the queue.
//
// The error wraps session.ErrUnchanged if nothing was stopped: also when the request reached Redis
// after ctx's deadline, or more than 10 s late.
func (s *Session) Stop(ctx context.Context) (stopped session.Stopped, err error) {
	if err := session.ValidateKey(s.key); err != nil {
		return stopped, err
	}
	name, rdb := rand.Text(), s.c.rdb
	now, until, err := s.giveUpAt(ctx)
	if err != nil {
		return stopped, fmt.Errorf("stop %s: %w", s.key, protocol.Unchanged(err, false))
	}
	for number := 1; ; {
		found, err := protocol.Stop{Session: s.key, Name: name, Number: number, Until: until, By: s.user, Limits: s.c.cfg.Limits}.Do(ctx, rdb)
		switch {
		case err != nil && number == 1:
			return stopped, fmt.Errorf("stop %s: %w", s.key, protocol.Unchanged(err, false))
		case err != nil:
			return stopped, fmt.Errorf("stop %s: %w", s.key, err)
		case found.Late:
			return stopped, fmt.Errorf("stop %s: %w", s.key, errLate)
		case found.Earlier:
			continue
		}
		stopped = session.Stopped{Phase: session.Phase(found.Phase), Fence: found.Fence, Dropped: found.Dropped}
		if found.Wake {
			_ = index.ListAndWake(ctx, rdb, s.key, now, 0) // the due index, reap or the sweep has the session
		}
		if !found.More {
			if stopped.Dropped > 0 {
				_ = index.NeedAttention(ctx, rdb, now, s.key)
			}
			return stopped, nil
		}
		if number == 1 {
			// If this process dies, reap finds the session and a worker archives the rest. A full
			// Redis refuses this entry; then the sweep finds the session.
			grace := redis.Z{Score: float64(now + index.ClaimGrace.Milliseconds()), Member: s.key}
			_ = rdb.ZAddLT(ctx, rediskey.Owned, grace).Err()
		}
		number++
	}
}
