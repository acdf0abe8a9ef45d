package protocol

import (
	"context"
	"errors"

	"turnstile/internal/redisconn"
	"turnstile/internal/script"
)

// TakeBack releases the sessions that a failed Claim may have taken: its reply was
// lost, so nobody runs what it took. It tries until Redis has answered for each of
// them, its sentinel has ended by itself, or ctx ends. Of calls at the same time one
// does the work and the others return at once.
func (c *Consumer) Unclaim(ctx context.Context) error {
	var failed error
	for claim := c.nextUnheard(true); claim != nil; claim = c.nextUnheard(false) {
		failed = errors.Join(failed, claim.unclaim(ctx))
	}
	return failed
}

// heardNothing remembers the claims of which no reply came.
func (c *Consumer) addUnheard(claims ...*Claim) {
	c.unheardMu.Lock()
	defer c.unheardMu.Unlock()
	c.unheard = append(c.unheard, claims...)
}

// nextUnheard is the next claim for a TakeBack, which begins with its first; nil: there
// is none, or another one is at work, which comes to all of them before it ends.
func (c *Consumer) nextUnheard(begins bool) *Claim {
	c.unheardMu.Lock()
	defer c.unheardMu.Unlock()
	if begins && c.unclaiming {
		return nil
	}
	if c.unclaiming = len(c.unheard) > 0; !c.unclaiming {
		return nil
	}
	claim := c.unheard[0]
	c.unheard = c.unheard[1:]
	return claim
}

// takeBack releases what the hold's claim has taken, while its sentinel may last.
func (c *Claim) unclaim(parent context.Context) error {
	consumer := c.consumer
	ctx, cancel := context.WithDeadline(parent, c.claimedBy)
	defer cancel()
	var r returned
	err := script.Repeat(ctx, func() (err error) {
		r, err = unclaimMove.run(ctx, consumer.rdb, unclaimMove.keys(c.keys), c.args(unclaimMove, 0))
		return err
	})
	if err != nil {
		return err
	}
	// Whoever claims in vain loses nothing, and an earlier reply may have been lost.
	// If this fails, reap and sweep find the session.
	_ = script.Repeat(ctx, func() error {
		now, err := consumer.rdb.Time(ctx).Result()
		if err != nil {
			return err
		}
		return Wake(ctx, consumer.rdb, now.UnixMilli(), consumer.cfg.Grace(), WakeUp{c.session, r.int("at")})
	})
	return nil
}

// mayHaveClaimed reports whether a claim may have been carried out although it
// failed: an error that is no answer of Redis says nothing.
func mayHaveClaimed(err error) bool { return err != nil && !redisconn.Refused(err) }
