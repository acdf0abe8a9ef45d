package protocol

import (
	"context"
	"errors"

	"turnstile/internal/protocol/index"
	"turnstile/internal/protocol/scripts"
	"turnstile/internal/redis/redisconn"
	"turnstile/internal/redis/script"
	"turnstile/pkg/session"
)

// Unclaim releases the sessions that a Claim with a lost reply may have claimed: the next claims go on with their
// turns. It tries until Redis has replied about each of them, its sentinel has expired, or ctx ends.
// Of concurrent calls one does the work and the others return at once.
func (c *Consumer) Unclaim(ctx context.Context) error {
	var failed error
	for claim := c.nextReplyLost(true); claim != nil; claim = c.nextReplyLost(false) {
		failed = errors.Join(failed, claim.unclaim(ctx))
	}
	return failed
}

// addReplyLost records claims with a lost reply.
func (c *Consumer) addReplyLost(claims ...*Claim) {
	c.replyLostMu.Lock()
	defer c.replyLostMu.Unlock()
	c.replyLost = append(c.replyLost, claims...)
}

// nextReplyLost returns the next claim for an Unclaim, which begins with its first call. It returns
// nil if there is none, or if another Unclaim is running: that one handles all claims.
func (c *Consumer) nextReplyLost(begins bool) *Claim {
	c.replyLostMu.Lock()
	defer c.replyLostMu.Unlock()
	if begins && c.unclaiming {
		return nil
	}
	if c.unclaiming = len(c.replyLost) > 0; !c.unclaiming {
		return nil
	}
	claim := c.replyLost[0]
	c.replyLost = c.replyLost[1:]
	return claim
}

// unclaim releases the claim's session, while its sentinel may still live.
func (c *Claim) unclaim(parent context.Context) error {
	consumer := c.consumer
	ctx, cancel := context.WithDeadline(parent, c.claimedBy)
	defer cancel()
	var r scripts.UnclaimResult
	err := script.Repeat(ctx, func() (err error) {
		r, err = scripts.Unclaim.Run(ctx, consumer.rdb, scripts.UnclaimKeys(c.keys), c.unclaimArgs(false))
		return err
	})
	if err != nil {
		return err
	}
	// It wakes the session even if nothing was released: an earlier reply may have been lost, and a
	// needless wake-up does no harm. If this fails, reap and the sweep find the session.
	_ = script.Repeat(ctx, func() error {
		now, err := consumer.rdb.Time(ctx).Result()
		if err != nil {
			return err
		}
		return index.Wake(ctx, consumer.rdb, now.UnixMilli(), consumer.cfg.Grace(), index.WakeUp{Session: c.session, At: r.At})
	})
	return nil
}

// GiveBack leaves a turn whose agent could not be started here, as if it had not been claimed. It is neither an
// attempt nor an interruption.
// Followers learn of it only if they were shown the turn's start. If the turn's end was requested meanwhile, it
// returns that as Park does, and the turn is still the owner's.
func (c *Claim) GiveBack(ctx context.Context) error {
	if start, err := c.unsentStart(); start == "" && err == nil {
		turn := c.Turn()
		parts, _ := c.split(nil)
		e := session.Event{Type: session.EventTurnRequeued, Turn: turn.ID, Fence: turn.Fence, Messages: ids(parts), Keeps: c.stands(), Reason: session.ReasonUnavailable}
		_ = c.Emit(ctx, []session.Event{e}) // events are only for followers
	}
	defer c.ends()()
	k, _ := c.owner()
	r, err := own(ctx, c, false, scripts.Unclaim, scripts.UnclaimKeys(k), c.unclaimArgs(true))
	if err != nil {
		return err
	}
	if r.Status == scripts.Requested {
		return requested(r.Request)
	}
	return c.released(ctx, r.Now, r.At)
}

func (c *Claim) unclaimArgs(gives bool) scripts.UnclaimArgs {
	return scripts.UnclaimArgs{Task: c.keys.TaskPrefix(), Token: c.token, Gives: gives}
}

// mayBeDone reports whether a failed call may have been carried out. Only an error from Redis
// shows that it was not, and only for the last attempt.
func mayBeDone(err error) bool {
	return err != nil && (!redisconn.Refused(err) || errors.Is(err, redisconn.ErrUnsure))
}
