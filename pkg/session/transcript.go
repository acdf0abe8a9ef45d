package session

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/rediskey"
)

// ReadTranscript reads a transcript, oldest entry first. One that does not exist,
// or has expired, is empty. What cannot be read is shown as such, see DecodeEntry.
func ReadTranscript(ctx context.Context, rdb redis.Cmdable, key, sessionID string) ([]Entry, error) {
	return readTranscript(ctx, rdb, key, sessionID, 0)
}

// ReadTail is ReadTranscript for the last n entries.
func ReadTail(ctx context.Context, rdb redis.Cmdable, key, sessionID string, n int) ([]Entry, error) {
	return readTranscript(ctx, rdb, key, sessionID, int64(-n))
}

func readTranscript(ctx context.Context, rdb redis.Cmdable, key, sessionID string, from int64) ([]Entry, error) {
	lines, err := rdb.LRange(ctx, rediskey.For(key).Transcript(sessionID), from, -1).Result()
	if err != nil {
		return nil, fmt.Errorf("read transcript of %s: %w", key, err)
	}
	return DecodeEntries(lines), nil
}
