package turnstile_test

import (
	"errors"
	"slices"
	"strings"
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
	send := func(b *actors.Bench) (receipt.Receipt, error) {
		return receipt.Input(b.Ctx, b.Client.Session(actors.Key), undo)
	}

	t.Run("repeated", func(t *testing.T) {
		t.Parallel()
		b, _ := bench(t)
		first, err := send(b)
		expect.OK(t, err)
		again, err := send(b)
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
		_, err := send(b)
		expect.OK(t, err)
		faults.Clear()
		_, err = send(b)
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
		_, err = send(b)
		expect.Equal(t, "expired", errors.Is(err, session.ErrExpired), true)
		left(b, 3)
	})
	t.Run("it was refused", func(t *testing.T) {
		t.Parallel()
		b, faults := bench(t)
		faults.FailBefore(actors.Script("undo"), -1, errors.New("OOM command not allowed"))
		_, err := send(b)
		expect.Equal(t, "unchanged", errors.Is(err, session.ErrUnchanged), true)
		faults.Clear()
		_, err = send(b)
		expect.OK(t, err)
		left(b, 2)
	})
}

// A turn ends in the old transcript after a /new, and the messages that wait begin the new one,
// whatever ends the turn.
func TestCommandNewInMidTurn(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(b *actors.Bench, h *protocol.Claim) *protocol.Claim{
		"/new":   func(b *actors.Bench, h *protocol.Claim) *protocol.Claim { b.Finish(h); return h },
		"/reset": func(b *actors.Bench, h *protocol.Claim) *protocol.Claim { b.Finish(h); return h },
		"/new and a release": func(b *actors.Bench, h *protocol.Claim) *protocol.Claim {
			end := b.Done(h)
			end.Release = true
			_, err := h.Finish(b.Ctx, end)
			expect.OK(b, err)
			return b.Start()
		},
	} {
		t.Run(strings.ReplaceAll(name, "/", ""), func(t *testing.T) {
			t.Parallel()
			actors.OnceAndTwice(t, func(t *testing.T, b *actors.Bench) {
				b.Say("a")
				h := b.Start()
				old := h.Turn().TranscriptID
				b.Say("b")
				b.SayCollected("c", "d")
				b.Say("s", session.ModeSteer)
				_, err := h.Steer(b.Ctx)
				expect.OK(t, err)
				command, _, _ := strings.Cut(name, " ")
				b.Replies(command, "The running turn ends in the old one")
				fresh := b.Info().TranscriptID
				expect.Equal(t, "session id changed", fresh != old, true)
				h = end(b, h)
				expect.Equal(t, "session id of what waited", h.Turn().TranscriptID, fresh)
				expect.Equal(t, "entries", h.Turn().Entries, 0)
				b.Finish(h)
				expect.List(t, "the turn", actors.MessageIDs(h), "c", "d")
				b.Finish(h)
				expect.List(t, "the old transcript", b.Transcript(old), "a", "re: a")
				expect.List(t, "the new transcript", b.Transcript(fresh), "b", "re: b", "c", "d", "re: c")
				expect.Equal(t, "the steered one's", b.Outcome("s").TranscriptID, old)
				b.Replies(command, "The next message begins a new conversation.")
			})
		})
	}
}

func TestB77_RotationKeepsTheLock(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.SayAll("a", "b")
	h := b.Start()
	old, before := h.Turn().TranscriptID, b.Redis.Get(b.Ctx, b.Keys.Sentinel()).Val()
	fresh, err := b.Client.Session(actors.Key).NewTranscript(b.Ctx, turnstile.TranscriptConfig{Replaces: old})
	expect.OK(t, err)
	if fresh == old {
		t.Fatal("not rotated")
	}
	expect.Equal(t, "sentinel", b.Redis.Get(b.Ctx, b.Keys.Sentinel()).Val(), before)
	expect.OK(t, h.Emit(b.Ctx, []session.Event{{Type: session.EventNotice, Text: "still mine"}}))
	expect.Equal(t, "has a next turn", b.Finish(h), true)
	expect.Equal(t, "next session id", h.Turn().TranscriptID, fresh)
	expect.Equal(t, "its entries", h.Turn().Entries, 0)
	expect.OK(t, h.Promote(b.Ctx))
	b.Finish(h)
	expect.List(t, "old transcript", b.Transcript(old), "a", "re: a")
	expect.List(t, "new transcript", b.Transcript(fresh), "b", "re: b")
	expect.Equal(t, "entries counted", b.Info().Entries, 2)
	expect.Equal(t, "session id", b.Info().TranscriptID, fresh)

	again, err := b.Client.Session(actors.Key).NewTranscript(b.Ctx)
	expect.OK(t, err)
	b.Say("c")
	h = b.Claim()
	expect.Equal(t, "session id after an idle rotation", h.Turn().TranscriptID, again)
	expect.Equal(t, "its entries", h.Turn().Entries, 0)
}

func TestB78_RotationOfAnIDThatIsGone(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	h := b.Start()
	before := b.Dump()
	now, err := b.Client.Session(actors.Key).NewTranscript(b.Ctx, turnstile.TranscriptConfig{Replaces: "long-gone"})
	expect.OK(t, err)
	expect.Equal(t, "session id", now, h.Turn().TranscriptID)
	actors.Same(t, "a rotation of another id", before, b.Dump())
}
