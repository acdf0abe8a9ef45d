package turnstile

import (
	"context"
	"errors"
	"time"

	"turnstile/internal/protocol"
)

// latest is how old a request may be that changes what is there now. What a network has
// held back for longer is not what the user means by then.
const latest = 10 * time.Second

// errLate: the request reached Redis when its sender had given it up.
var errLate = protocol.Unchanged(errors.New("the request reached Redis too late and was not carried out; try again"), true)

// giveUpAt returns the clock of the session's Redis and the time after which a request of
// now is void, in ms: ctx's deadline, but no later than latest.
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
