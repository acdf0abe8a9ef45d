package resume

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/redis/script"
)

//go:embed mark.lua
var markLua string

//go:embed clear.lua
var clearLua string

//go:embed suspend.lua
var suspendLua string

var (
	markScript    = script.New("resume mark", script.Prelude()+markLua)
	clearScript   = script.New("resume clear", clearLua)
	suspendScript = script.New("resume suspend", suspendLua)
)

// Mark sets the session's resume mark: its last turn was interrupted, now. An empty reason means
// ReasonRestart. An existing mark gets the new reason and time. The counter of interruptions stays.
// Mark returns false, and changes nothing, if the session is unknown or suspended.
func Mark(ctx context.Context, rdb redis.UniversalClient, session, reason string) (bool, error) {
	if reason == "" {
		reason = ReasonRestart
	}
	k := rediskey.For(session)
	r, err := markScript.Run(ctx, rdb, []string{k.Record(), k.Resume(), k.Run()}, reason)
	if err != nil {
		return false, fmt.Errorf("mark %s: %w", session, err)
	}
	return r.Yes(), nil
}

// Clear removes the session's resume mark. The counter of interruptions and a suspension stay.
// Clear returns false if there was no mark.
func Clear(ctx context.Context, rdb redis.UniversalClient, session string) (bool, error) {
	r, err := clearScript.Run(ctx, rdb, []string{rediskey.For(session).Resume()})
	if err != nil {
		return false, fmt.Errorf("clear the mark of %s: %w", session, err)
	}
	return r.Yes(), nil
}

// Suspend makes the session's next message begin another transcript, under the same key. A mark
// stays in the record but has no effect. Suspend returns true if the session is suspended now, even
// if it was before. It returns false, and changes nothing, if the session is unknown.
func Suspend(ctx context.Context, rdb redis.UniversalClient, session string) (bool, error) {
	k := rediskey.For(session)
	r, err := suspendScript.Run(ctx, rdb, []string{k.Record(), k.Resume(), k.Run()})
	if err != nil {
		return false, fmt.Errorf("suspend %s: %w", session, err)
	}
	return r.Yes(), nil
}
