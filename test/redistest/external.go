package redistest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
)

// externalPatience is how long a test waits for a database that another test uses.
const externalPatience = time.Minute

// takeExternal takes an empty database of the server at rawURL. The locks are in the URL's own
// database, which is therefore never given to a test. Each lock expires after the deadline of its
// test's binary.
func takeExternal(t testing.TB, rawURL string) (*database, error) {
	t.Helper()
	options, err := redis.ParseURL(rawURL)
	if err != nil {
		return nil, fmt.Errorf("REDIS_URL for tests must be redis://, rediss:// or unix://: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), externalPatience)
	defer cancel()
	locks := redis.NewClient(options)
	defer locks.Close()

	count := 16
	if got, err := locks.ConfigGet(ctx, "databases").Result(); err == nil {
		if n, err := strconv.Atoi(got["databases"]); err == nil {
			count = n
		}
	}
	token := uuid.NewString()
	for {
		held := 0
		for n := range count {
			if n == options.DB {
				continue
			}
			lock := fmt.Sprintf("turnstile:testredis:lock:%d", n)
			won, err := locks.SetNX(ctx, lock, token, lockLife(t)).Result()
			if err != nil {
				return nil, fmt.Errorf("lock a database of REDIS_URL: %w", err)
			}
			if !won {
				held++
				continue
			}
			db, err := openExternal(ctx, rawURL, n)
			if err != nil {
				locks.Del(ctx, lock)
				return nil, err
			}
			if db == nil {
				locks.Del(ctx, lock)
				continue
			}
			t.Cleanup(func() { db.giveBack(t, rawURL, lock, token) })
			return db, nil
		}
		if held == 0 {
			return nil, errors.New("no database of REDIS_URL's server is empty; tests delete nothing that they did not make: empty one, or unset REDIS_URL")
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("REDIS_URL's server has no empty database, and %d are held by other tests (keys turnstile:testredis:lock:* in its database %d)", held, options.DB)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// openExternal returns nil if database n is not empty.
func openExternal(ctx context.Context, rawURL string, n int) (*database, error) {
	options, err := redis.ParseURL(rawURL)
	if err != nil {
		return nil, err
	}
	options.DB = n
	client := redis.NewClient(options)
	size, err := client.DBSize(ctx).Result()
	if err != nil || size > 0 {
		_ = client.Close()
		return nil, err
	}
	return &database{url: withDatabase(rawURL, options, n), client: client}, nil
}

// giveBack deletes every key of the database, which was empty when it was taken, and then frees the
// lock if it is still this test's.
func (db *database) giveBack(t testing.TB, rawURL, lock, token string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	_ = db.client.Close()
	options, err := redis.ParseURL(rawURL)
	if err != nil {
		t.Errorf("redistest: %v", err)
		return
	}
	locks := redis.NewClient(options)
	defer locks.Close()
	if held, err := locks.Get(ctx, lock).Result(); err != nil || held != token {
		t.Errorf("redistest: the lock %s was lost (%v); what the test made is not deleted", lock, err)
		return
	}
	err = withoutHooks(db, func(c *redis.Client) error {
		keys := c.Scan(ctx, 0, "*", 1000).Iterator()
		for keys.Next(ctx) {
			if err := c.Unlink(ctx, keys.Val()).Err(); err != nil {
				return err
			}
		}
		return keys.Err()
	})
	if err != nil {
		t.Errorf("redistest: delete what the test made: %v", err)
	}
	locks.Del(ctx, lock)
}

// lockLife is the time until a little after the test binary's own deadline.
func lockLife(t testing.TB) time.Duration {
	if d, ok := t.(interface{ Deadline() (time.Time, bool) }); ok {
		if at, ok := d.Deadline(); ok {
			return time.Until(at) + time.Minute
		}
	}
	return time.Hour
}
