package protocol

import (
	"context"
	"errors"
	"time"

	"turnstile/internal/rediskey"
)

// latest is how long after its sending a change of what is there now may be carried
// out, at most. A request that a network has held back for longer is not what the user
// means by then.
const latest = 10 * time.Second

// errLate: Redis has got the request when its sender had given it up.
var errLate error = unchangedError{errors.New("the request reached Redis too late and was not carried out; try again")}

// giveUpAt is the clock of the session's Redis and the time after which a request of
// now is void, in ms: with ctx, and no later than latest.
func (c *Client) giveUpAt(ctx context.Context, sessionKey string) (now, until int64, err error) {
	reply, err := run(ctx, c.rdb, lookScript(), keys(sessionKey, "", time.Now()), rediskey.For(sessionKey).TaskPrefix())
	if err != nil {
		return 0, 0, unchangedError{err} // it only reads
	}
	left := latest
	if deadline, ok := ctx.Deadline(); ok {
		left = min(left, time.Until(deadline))
	}
	now = reply.int(0)
	return now, now + left.Milliseconds(), nil
}
