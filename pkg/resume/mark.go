package resume

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/rediskey"
	"turnstile/internal/script"
)

//go:embed mark.lua
var markLua string

//go:embed clear.lua
var clearLua string

//go:embed suspend.lua
var suspendLua string

var (
	markScript    = script.New("resume mark", func() string { return script.Prelude() + markLua }).Redis
	clearScript   = script.New("resume clear", func() string { return clearLua }).Redis
	suspendScript = script.New("resume suspend", func() string { return suspendLua }).Redis
)

// Mark says that the session's last turn was cut off, now; an empty reason means
// ReasonRestart. A mark that is there already gets the new reason and time. It
// counts no interruption. False: the session is unknown or suspended, and
// nothing has changed.
func Mark(ctx context.Context, rdb redis.Scripter, session, reason string) (bool, error) {
	if reason == "" {
		reason = ReasonRestart
	}
	k := rediskey.For(session)
	marked, err := markScript().Run(ctx, rdb, []string{k.Record(), k.Resume(), k.Run()}, reason).Bool()
	if err != nil {
		return false, fmt.Errorf("mark %s: %w", session, err)
	}
	return marked, nil
}

// Clear takes the session's mark away; the counter of interruptions and a
// suspension stay. False: there was no mark.
func Clear(ctx context.Context, rdb redis.Scripter, session string) (bool, error) {
	cleared, err := clearScript().Run(ctx, rdb, []string{rediskey.For(session).Resume()}).Bool()
	if err != nil {
		return false, fmt.Errorf("clear the mark of %s: %w", session, err)
	}
	return cleared, nil
}

// Suspend makes the session's next message begin another transcript, under the
// same key and queue. A mark stays in the record and is not heeded. True: the
// session is suspended, whether or not it was before. False: it is unknown, and
// nothing has changed.
func Suspend(ctx context.Context, rdb redis.Scripter, session string) (bool, error) {
	k := rediskey.For(session)
	suspended, err := suspendScript().Run(ctx, rdb, []string{k.Record(), k.Resume(), k.Run()}).Bool()
	if err != nil {
		return false, fmt.Errorf("suspend %s: %w", session, err)
	}
	return suspended, nil
}
