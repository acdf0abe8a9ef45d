package protocol

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/scripts"
	"turnstile/internal/redis/script"
)

// Values of Looked.State. The others are paused and empty.
const (
	LookOwned = "held"  // N: remaining life of its sentinel, ms
	LookReady = "ready" // N: 1 if its owner died
	LookWait  = "wait"  // N: when it can be claimed, ms
)

// Looked is whether a session can be claimed.
type Looked struct {
	State string
	Now   int64 // Redis' clock, ms
	N     int64
	Err   error // wraps ErrBroken if it is about the session's keys
}

// Look reads whether each session can be claimed. lua/look.lua.
func Look(ctx context.Context, rdb redis.UniversalClient, sessions []string) []Looked {
	found := make([]Looked, len(sessions))
	at := time.Now()
	calls := scripts.Look.Each(ctx, rdb, len(sessions), func(i int) ([]string, scripts.LookArgs) { return look(sessions[i], at) })
	for i, call := range calls {
		r := scripts.Look.Result(call)
		found[i] = Looked{State: r.State, Now: r.Now, N: r.N, Err: call.Err}
		if broken(call.Err) {
			found[i].Err = fmt.Errorf("%w: %w", ErrBroken, call.Err)
		}
	}
	return found
}

func look(sessionKey string, at time.Time) (keys []string, args scripts.LookArgs) {
	k := scripts.KeysOf(sessionKey, "", at)
	return scripts.LookKeys(k), scripts.LookArgs{Task: k.TaskPrefix()}
}

// Now returns the clock of the session's Redis, in ms.
func Now(ctx context.Context, rdb script.Client, sessionKey string) (int64, error) {
	keys, args := look(sessionKey, time.Now())
	r, err := scripts.Look.Run(ctx, rdb, keys, args)
	return r.Now, err
}
