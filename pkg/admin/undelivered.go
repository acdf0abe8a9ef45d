package admin

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/deliveries"
	"turnstile/internal/protocol/wire"
	"turnstile/pkg/session"
)

// Undelivered counts a session's undelivered outcomes.
type Undelivered struct {
	Owed    int // of messages that have not ended
	Waiting int // for their attempt, questions too
	GivenUp int
}

// Undelivered counts the session's undelivered outcomes. It reads three sizes, regardless of how
// much is stored.
func (s *Session) Undelivered(ctx context.Context) (Undelivered, error) {
	if err := session.ValidateKey(s.key); err != nil {
		return Undelivered{}, err
	}
	var owed, waiting, givenUp *redis.IntCmd
	_, err := s.admin.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		k := s.keys()
		owed, waiting, givenUp = p.HLen(ctx, k.Owed()), p.ZCard(ctx, k.Outbox()), p.ZCard(ctx, k.Undelivered())
		return nil
	})
	if err != nil {
		return Undelivered{}, fmt.Errorf("count undelivered outcomes of %s: %w", s.key, broken(err))
	}
	return Undelivered{Owed: int(owed.Val()), Waiting: int(waiting.Val()), GivenUp: int(givenUp.Val())}, nil
}

// Redrive tries deliveries to a destination, or All, that were given up again, after those that wait,
// and returns how many.
func (s *Session) Redrive(ctx context.Context, destination string) (n int, err error) {
	return s.redrive(ctx, destination, false)
}

// DeleteUndelivered deletes deliveries to a destination, or All, that were given up, and returns how
// many.
func (s *Session) DeleteUndelivered(ctx context.Context, destination string) (n int, err error) {
	return s.redrive(ctx, destination, true)
}

func (s *Session) redrive(ctx context.Context, destination string, drop bool) (n int, err error) {
	if err := session.ValidateKey(s.key); err != nil {
		return 0, err
	}
	r := deliveries.Redrive{Session: s.key, Delete: drop, Most: outboxPage}
	if destination != All {
		if err := wire.ValidateDestination(destination); err != nil {
			return 0, err
		}
		r.Destination = destination
	}
	for more := true; more; {
		r.Call = rand.Text()
		var moved int
		if moved, more, err = r.Do(ctx, s.admin.rdb); err != nil {
			return n, fmt.Errorf("deliveries of %s that were given up: %w", s.key, broken(err))
		}
		n += moved
	}
	return n, nil
}
