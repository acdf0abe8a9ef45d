package protocol_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"turnstile/internal/protocol"
	"turnstile/pkg/admin"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// A long error, as an agent's, is truncated. Retries do not make the task grow by more than that.
func TestLongErrors(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	long := errors.New(strings.Repeat("ä", 1<<20))
	for range 3 {
		h := b.Start()
		expect.OK(t, h.Retry(b.Ctx, long, 0, 0))
	}
	if n := b.Redis.HStrLen(b.Ctx, b.Keys.Task(b.Task("a")), "msg").Val(); n > 4000 {
		t.Errorf("the task has %d bytes", n)
	}
	_, err := b.Start().Finish(b.Ctx, protocol.End{Status: session.StatusFailed, Error: long.Error()})
	expect.OK(t, err)
	if n := len(b.Outcome("a").Error); n < 16<<10 || n > 17<<10 {
		t.Errorf("the error has %d bytes", n)
	}
}

// A retry does not get the checkpoint of the failed attempt.
func TestRetryForgetsTheFailedAttempt(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	h := b.Start()
	expect.OK(t, actors.Checkpoint(b.Ctx, h, []session.Entry{{Role: session.RoleAssistant, Text: "half"}}))
	expect.OK(t, h.Retry(b.Ctx, errors.New("flaky"), 0, 0))
	past, err := b.Start().History(b.Ctx)
	expect.OK(t, err)
	if past.Earlier != nil {
		t.Errorf("the second attempt continues from %+v", past.Earlier.Entries)
	}
}

// The checkpoint of an earlier, interrupted run stays if the failed attempt stored none.
func TestRetryKeepsWhatWasInherited(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	h := b.Start()
	expect.OK(t, h.Requeue(b.Ctx, "drain", session.Entry{Role: session.RoleAssistant, Text: "half"}))
	h = b.Start()
	expect.OK(t, h.Retry(b.Ctx, errors.New("flaky"), 0, 0))
	past, err := b.Start().History(b.Ctx)
	expect.OK(t, err)
	if past.Earlier == nil || past.Earlier.Entries[0].Text != "half" {
		t.Errorf("inherited: %+v", past.Earlier)
	}
}

// A message that fails and is rerun, however often, does not become too long to be read: its task
// has the last failure only, and none while it is rerun.
func TestTaskDoesNotGrowWithFailures(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Enqueue("a", asynq.Unique(time.Hour))
	size := func() int64 { return b.Redis.HStrLen(b.Ctx, b.Keys.Task(b.Task("a")), "msg").Val() }
	fresh, long := size(), strings.Repeat("x", 1<<20)
	for range 30 {
		for range 3 {
			expect.OK(t, b.Start().Retry(b.Ctx, errors.New(long), 0, 0))
		}
		_, err := b.Start().Finish(b.Ctx, protocol.End{Status: session.StatusFailed, Error: long})
		expect.OK(t, err)
		info := inspect(b, "a")
		expect.Equal(t, "asynqmon: retried", info.Retried, 3)
		expect.Equal(t, "asynqmon: its error", info.LastErr, b.Outcome("a").Error)
		n, err := b.Client.Operate(actors.Key).Rerun(b.Ctx, admin.All)
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
