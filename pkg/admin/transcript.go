package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
	"turnstile/internal/rediskey"
	"turnstile/internal/stored"
	"turnstile/pkg/session"
)

// Transcript returns the transcript with that session id, oldest entry first. session.Info has the
// current id. A transcript that does not exist or has expired is empty. An entry that cannot be
// read has the role session.RoleSystem and the reason as its text.
func (a *Client) Transcript(ctx context.Context, key, sessionID string) ([]session.Entry, error) {
	return a.transcript(ctx, key, sessionID, 0)
}

// Tail returns the last n entries of a session's current transcript, oldest first. n must be at
// least 1. A session without a transcript has none.
func (a *Client) Tail(ctx context.Context, sessionKey string, n int) ([]session.Entry, error) {
	k := rediskey.For(sessionKey)
	id, err := a.rdb.HGet(ctx, k.Record(), "session_id").Result()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read session %s: %w", sessionKey, err)
	}
	return a.transcript(ctx, sessionKey, id, int64(-n))
}

// TranscriptPage returns up to n of the last entries among the first before ones of a transcript,
// oldest first; before is -1 for all. older is how many entries are before them: pass it on for the
// next page. A page has fewer than n entries if these are long. When a transcript's cap removes
// entries between two calls, the second page may repeat some of the first.
func (a *Client) TranscriptPage(ctx context.Context, key, sessionID string, before int64, n int) (entries []session.Entry, older int64, err error) {
	if err := session.ValidateKey(key); err != nil {
		return nil, 0, err
	}
	older, page, err := protocol.TranscriptPage(ctx, a.rdb, key, sessionID, before, protocol.HistoryPage)
	if err != nil {
		return nil, 0, fmt.Errorf("read transcript of %s: %w", key, err)
	}
	if len(page) == 0 {
		older = 0 // before is beyond the end
	}
	if len(page) > n {
		older += int64(len(page) - n)
		page = page[:n]
	}
	slices.Reverse(page) // it is newest first
	return stored.DecodeEntries(page), older, nil
}

func (a *Client) transcript(ctx context.Context, key, sessionID string, from int64) ([]session.Entry, error) {
	lines, err := a.rdb.LRange(ctx, rediskey.For(key).Transcript(sessionID), from, -1).Result()
	if err != nil {
		return nil, fmt.Errorf("read transcript of %s: %w", key, err)
	}
	return stored.DecodeEntries(lines), nil
}
