package turnstile

import (
	"context"
	"errors"
	"time"

	"turnstile/internal/protocol"
)

// latest is the maximum age of a request that changes the present state, as Stop does. If the
// network delays it longer, the user no longer means it.
const latest = 10 * time.Second

// errLate: the request reached Redis after its sender had given up.
var errLate = protocol.Unchanged(errors.New("the request reached Redis too late and was not carried out; try again"), true)

// giveUpAt returns the clock of the session's Redis, and the time after which a request sent now is
// void, both in ms: ctx's deadline, but no later than latest from now.
func (s *Session) giveUpAt(ctx context.Context) (now, until int64, err error) {
	now, err = protocol.Now(ctx, s.c.rdb, s.key)
	if err != nil {
		return 0, 0, protocol.Unchanged(err, true) // it only reads
	}
	left := latest
	if deadline, ok := ctx.Deadline(); ok {
		left = min(left, time.Until(deadline))
	}
	return now, now + left.Milliseconds(), nil
}
