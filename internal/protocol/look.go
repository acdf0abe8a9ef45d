package protocol

import (
	"context"
	"fmt"
	"strconv"
	"strings"
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

// neededFor is how long it counts that no living worker ran a session's agent. Workers look again every
// unservedPause.
const neededFor = 4 * unservedPause

// NeededAgent returns the agent that no living worker ran when one looked last, from a record's field
// needs. "": there is none, that was too long ago, or a turn was claimed or has ended since.
func NeededAgent(needs string, turn, now time.Time) string {
	agent, at, _ := strings.Cut(needs, " ")
	ms, err := strconv.ParseInt(at, 10, 64)
	if looked := time.UnixMilli(ms); err != nil || now.Sub(looked) > neededFor || !looked.After(turn) {
		return ""
	}
	return agent
}
