package protocol

import (
	"context"
	"time"

	"turnstile/internal/rediskey"
	"turnstile/internal/script"
)

// Erase deletes a batch of a session's messages, and in the end all of its keys.
// lua/erase.lua.
type Erase struct {
	Session string
	Fence   string   // of the last turn when the keys were looked up, "": none
	Batch   int      // messages
	Others  []string // keys, beside those of Keys
	Last    bool     // no other key of the session is left
}

// Do returns gone, held (somebody owns the session), changed (a turn has run since the
// keys were looked up) or batch (call again).
func (e Erase) Do(ctx context.Context, rdb script.Client) (state string, err error) {
	r, err := eraseMove.run(ctx, rdb, eraseMove.keys(Keys(e.Session, "", time.Now()), e.Others...), eraseMove.args(
		"task", rediskey.For(e.Session).TaskPrefix(), "fence", e.Fence, "size", e.Batch, "last", e.Last,
	))
	return r.status(), err
}
