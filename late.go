package turnstile

import (
	"context"
	"errors"
	"time"

	"turnstile/internal/protocol"
)

// latest is how long after its sending a change of what is there now may be carried
// out, at most. A request that a network has held back for longer is not what the user
// means by then.
const latest = 10 * time.Second

// errLate: Redis has got the request when its sender had given it up.
var errLate = protocol.Unchanged(errors.New("the request reached Redis too late and was not carried out; try again"), true)

// giveUpAt is the clock of the session's Redis and the time after which a request of
// now is void, in ms: with ctx, and no later than latest.
func (c *Client) giveUpAt(ctx context.Context, sessionKey string) (now, until int64, err error) {
	now, err = protocol.Now(ctx, c.rdb, sessionKey)
	if err != nil {
		return 0, 0, protocol.Unchanged(err, true) // it only reads
	}
	left := latest
	if deadline, ok := ctx.Deadline(); ok {
		left = min(left, time.Until(deadline))
	}
	return now, now + left.Milliseconds(), nil
}
