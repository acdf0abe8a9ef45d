package protocol

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/rediskey"
)

// bodyLife is how long the last message of a body is remembered. A client's timeout is shorter.
const bodyLife = 24 * time.Hour

// Bodies remembers the last message of each body that was sent to a session more than once. By
// these the gateway recognizes a client's repeated request.
type Bodies struct{ rdb redis.UniversalClient }

// NewBodies returns Bodies that share rdb.
func NewBodies(rdb redis.UniversalClient) Bodies { return Bodies{rdb} }

// Last returns the ID of a body's last message, "" if there is none, and Redis' time.
func (b Bodies) Last(ctx context.Context, sessionKey, body string) (id string, now time.Time, err error) {
	at := b.rdb.Time(ctx)
	id, err = b.rdb.Get(ctx, rediskey.For(sessionKey).Call(body)).Result()
	if errors.Is(err, redis.Nil) {
		err = nil
	}
	return id, at.Val(), errors.Join(err, at.Err())
}

// Now returns Redis' time.
func (b Bodies) Now(ctx context.Context) (time.Time, error) { return b.rdb.Time(ctx).Result() }

// Sent stores the ID of a body's last message.
func (b Bodies) Sent(ctx context.Context, sessionKey, body, id string) error {
	return b.rdb.Set(ctx, rediskey.For(sessionKey).Call(body), id, bodyLife).Err()
}
