package turnstile_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/internal/chat/receipt"
	"turnstile/internal/protocol"
	"turnstile/internal/protocol/wire"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// stepOfOnce matches the calls of the script of commands' records with a step.
func stepOfOnce(step string) redistest.Match {
	once := actors.Script("once")
	return func(cmd redis.Cmder) bool { return once(cmd) && slices.Contains(cmd.Args(), any(step)) }
}

// A command with an ID runs once through all failures: its repetition gets its receipt, or an error
// that it may have run. A command that changed nothing can be repeated.
func TestCommandWithAnID(t *testing.T) {
	t.Parallel()
	undo := turnstile.Message{ID: "k", Text: "/undo"}
	bench := func(t *testing.T) (*actors.Bench, *redistest.Faults) {
		b, faults := actors.NewBench(t), &redistest.Faults{}
		b.Client = actors.NewClient(b.Redis)
		b.Redis.AddHook(faults)
		for _, text := range []string{"one", "two", "three"} {
			b.Say(text)
			b.Drain()
		}
		return b, faults
	}
	left := func(b *actors.Bench, turns int) {
		b.Helper()
		expect.Equal(b, "turns", len(b.Transcript(b.Info().TranscriptID)), 2*turns)
	}
	submit := func(b *actors.Bench) (receipt.Receipt, error) {
		return receipt.Input(b.Ctx, b.Client.Session(actors.Key), undo)
	}

	t.Run("repeated", func(t *testing.T) {
		t.Parallel()
		b, _ := bench(t)
		first, err := submit(b)
		expect.OK(t, err)
		again, err := submit(b)
		expect.OK(t, err)
		expect.Equal(t, "receipt", again, first)
		left(b, 2)
		r, err := receipt.Input(b.Ctx, b.Client.Session(actors.Key), turnstile.Message{ID: "k", Text: "/retry"})
		expect.OK(t, err)
		expect.Equal(t, "another command", r.Reason, "conflict")
		_, err = b.Chat().Send(b.Ctx, undo)
		expect.Equal(t, "a message", errors.Is(err, session.ErrConflict), true)
		b.Say("four")
		r, err = receipt.Input(b.Ctx, b.Client.Session(actors.Key), turnstile.Message{ID: "four", Text: "/undo"})
		expect.OK(t, err)
		expect.Equal(t, "a message's id", r.Reason, "conflict")
		left(b, 2)
	})
	t.Run("its program died behind the command", func(t *testing.T) {
		t.Parallel()
		b, faults := bench(t)
		faults.FailBefore(stepOfOnce("end"), -1, errors.New("broken pipe"))
		_, err := submit(b)
		expect.OK(t, err)
		faults.Clear()
		_, err = submit(b)
		expect.Equal(t, "expired", errors.Is(err, session.ErrExpired), true)
		left(b, 2)
	})
	t.Run("its program died before the command", func(t *testing.T) {
		t.Parallel()
		b, _ := bench(t)
		what, err := wire.Message{Text: undo.Text}.Payload()
		expect.OK(t, err)
		_, begun, err := protocol.NewOnce(b.Redis, actors.Key, "k", what, time.Hour).Begin(b.Ctx)
		expect.OK(t, err)
		expect.Equal(t, "begun", begun, true)
		_, err = submit(b)
		expect.Equal(t, "expired", errors.Is(err, session.ErrExpired), true)
		left(b, 3)
	})
	t.Run("it was refused", func(t *testing.T) {
		t.Parallel()
		b, faults := bench(t)
		faults.FailBefore(actors.Script("undo"), -1, errors.New("OOM command not allowed"))
		_, err := submit(b)
		expect.Equal(t, "unchanged", errors.Is(err, session.ErrUnchanged), true)
		faults.Clear()
		_, err = submit(b)
		expect.OK(t, err)
		left(b, 2)
	})
}
