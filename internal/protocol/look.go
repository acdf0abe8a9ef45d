package protocol

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/rediskey"
	"turnstile/internal/script"
)

// What Looked.What may be.
const (
	LookHeld  = "held"  // N: how long its sentinel lives, ms
	LookReady = "ready" // N: 1 after a dead owner
	LookWait  = "wait"  // N: until when, ms
)

// Looked tells whether a session may be claimed.
type Looked struct {
	What string
	Now  int64 // Redis' clock, ms
	N    int64
	Err  error
}

// Look asks of each session whether it may be claimed. lua/look.lua.
func Look(ctx context.Context, rdb redis.UniversalClient, sessions []string) []Looked {
	found := make([]Looked, len(sessions))
	at := time.Now()
	replies := lookScript.Each(ctx, rdb, len(sessions), func(i int) ([]string, []any) {
		return Keys(sessions[i], "", at), []any{rediskey.For(sessions[i]).TaskPrefix()}
	})
	for i, r := range replies {
		found[i] = Looked{What: r.Result.Text(1), Now: r.Result.Int(0), N: r.Result.Int(2), Err: r.Err}
	}
	return found
}

// Now is the clock of a session's Redis, ms.
func Now(ctx context.Context, rdb script.Client, sessionKey string) (int64, error) {
	a, err := lookScript.Run(ctx, rdb, Keys(sessionKey, "", time.Now()), rediskey.For(sessionKey).TaskPrefix())
	return a.Int(0), err
}
