package protocol

import (
	"context"
	"time"

	"turnstile/internal/rediskey"
	"turnstile/internal/script"
	"turnstile/pkg/session"
)

// stopBatch bounds what one call of Stop archives: messages, and bytes.
const stopBatch = "500 4194304"

// Stop requests the end of the running turn and archives the waiting messages, a batch with each
// call. lua/stop.lua.
type Stop struct {
	Session string
	Name    string // of this stop, the same for all its calls
	Number  int    // of the call, from 1
	Until   int64  // ms; after that the first call does nothing
	Limits  session.Limits
}

// StopResult is what one call of Stop did.
type StopResult struct {
	Late    bool // it did nothing: the call came after Until
	Earlier bool // it archived messages of an earlier stop: call again with the same number
	Phase   string
	Fence   int64
	Dropped int
	More    bool // call again with the next number
}

// Do makes one call.
func (s Stop) Do(ctx context.Context, rdb script.Client) (StopResult, error) {
	k := rediskey.For(s.Session)
	r, err := stopMove.run(ctx, rdb, stopMove.keys(Keys(s.Session, "", time.Now()), k.Call(s.Name)), stopMove.args(append(senderEvents(),
		"task", k.TaskPrefix(), "prefix", rediskey.IDPrefix(s.Session), "longest", TaskMost(s.Limits),
		"batch_limits", stopBatch, "number", s.Number, "deadline", s.Until,
	)...))
	if err != nil {
		return StopResult{}, err
	}
	return StopResult{
		Late: r.status() == "late", Earlier: r.status() == "earlier",
		Phase: r.text("phase"), Fence: r.int("fence"), Dropped: int(r.int("meant")), More: r.is("more"),
	}, nil
}
