// Command stream measures the cost and the delay of an agent's events, on a redis-server that it
// starts: the commands, bytes and processor time for each piece of a talkative agent's reply,
// checkpoints included, and the time from the agent's first piece to a follower of the session.
//
// Worker and follower are in this one process and share its clock, but not a Redis client.
package main

import (
	"context"
	"flag"
	"time"

	"turnstile/bench/internal/lab"
)

var (
	turns   = flag.Int("turns", 50, "talkative turns at once")
	rate    = flag.Int("rate", 200, "pieces of the reply that each of them emits in a second")
	lasts   = flag.Duration("for", 20*time.Second, "how long they are watched; the first checkpoint is after 15s")
	samples = flag.Int("samples", 200, "samples of the first piece")
)

func main() { lab.Main("stream", run) }

func run(ctx context.Context, srv *lab.Server, report *lab.Report) error {
	if err := talkative(ctx, srv, report, lab.Quick(*lasts, 3*time.Second)); err != nil {
		return err
	}
	for _, thinks := range []time.Duration{0, 200 * time.Millisecond} {
		if err := firstPiece(ctx, srv, report, thinks, lab.Quick(*samples, 30)); err != nil {
			return err
		}
	}
	return nil
}
