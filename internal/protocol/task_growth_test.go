package protocol_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"turnstile/internal/protocol"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// A message that fails and is run again, however often, does not become too long to be
// read: its task has the last failure only, and none when it is run again.
func TestTaskDoesNotGrowWithFailures(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Enqueue("a", asynq.Unique(time.Hour))
	size := func() int64 { return b.Redis.HStrLen(b.Ctx, b.Keys.Task(b.Task("a")), "msg").Val() }
	fresh, long := size(), strings.Repeat("x", 1<<20)
	for range 30 {
		for range 3 {
			expect.OK(t, b.Start().Retry(b.Ctx, errors.New(long), 0))
		}
		_, err := b.Start().Finish(b.Ctx, protocol.End{Status: session.StatusFailed, Error: long})
		expect.OK(t, err)
		info := inspect(b, "a")
		expect.Equal(t, "asynqmon: retried", info.Retried, 3)
		expect.Equal(t, "asynqmon: its error", info.LastErr, b.Outcome("a").Error)
		n, err := b.Client.Rerun(b.Ctx, actors.Key)
		expect.OK(t, err)
		expect.Equal(t, "run again", n, 1)
		if n := size(); n > fresh {
			t.Fatalf("the task has %d bytes, it had %d", n, fresh)
		}
		info = inspect(b, "a")
		expect.Equal(t, "asynqmon: retried, when it is run again", info.Retried, 0)
		expect.Equal(t, "asynqmon: its error, when it is run again", info.LastErr, "")
	}
	h := b.Start()
	expect.Equal(t, "text", h.Turn().Message.Text, "a")
	expect.Equal(t, "attempt", h.Turn().Attempt, 1)
}
