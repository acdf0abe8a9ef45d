package protocol

import (
	"context"
	"time"

	"turnstile/internal/protocol/scripts"
	"turnstile/internal/redis/script"
	"turnstile/pkg/session"
)

// stopBatch bounds one call of Stop: the messages that it archives, and their bytes.
const stopBatch = "500 4194304"

// Stop requests the end of the running turn and archives the waiting messages, a batch with each
// call. lua/stop.lua.
type Stop struct {
	Session string
	Name    string // of this stop, the same for all its calls
	Number  int    // of the call, from 1
	Until   int64  // ms; after that the first call does nothing
	By      string // who does it, for the audit; "": unknown
	Limits  session.Limits
}

// StopResult is the result of one call of Stop.
type StopResult struct {
	Late    bool // it did nothing: the call came after Until
	Earlier bool // it archived messages of an earlier stop: call again with the same number
	Phase   string
	Fence   int64
	Dropped int
	More    bool // call again with the next number
	Wake    bool // the turn has no owner: the session is to be claimed
}

// Do makes one call.
func (s Stop) Do(ctx context.Context, rdb script.Client) (StopResult, error) {
	k := scripts.KeysOf(s.Session, "", time.Now())
	r, err := scripts.Stop.Run(ctx, rdb, scripts.StopKeys(k, k.Call(s.Name)), scripts.StopArgs{
		Prefixes: scripts.PrefixesOf(s.Session), Stream: senderStream, Longest: TaskMost(s.Limits),
		By: cutBy(s.By), BatchLimits: stopBatch, Number: int64(s.Number), Deadline: s.Until,
	})
	if err != nil {
		return StopResult{}, err
	}
	return StopResult{
		Late: r.Status == scripts.Late, Earlier: r.Status == scripts.Earlier,
		Phase: r.Phase, Fence: r.Fence, Dropped: int(r.Meant), More: r.More, Wake: r.Wake,
	}, nil
}
