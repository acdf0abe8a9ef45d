package protocol

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/rediskey"
)

// StoreTicket stores what a ticket stands for, under the hash of its secret, for a while.
func StoreTicket(ctx context.Context, rdb redis.UniversalClient, hash, grant string, life time.Duration) error {
	return rdb.SetEx(ctx, rediskey.Ticket(hash), grant, life).Err()
}

// TakeTicket returns what a ticket stands for, once. Afterwards the ticket is unknown.
func TakeTicket(ctx context.Context, rdb redis.UniversalClient, hash string) (grant string, ok bool, err error) {
	grant, err = rdb.GetDel(ctx, rediskey.Ticket(hash)).Result()
	if errors.Is(err, redis.Nil) {
		return "", false, nil
	}
	return grant, err == nil, err
}
