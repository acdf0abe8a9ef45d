package turnstile_test

import (
	"errors"
	"testing"
	"time"

	"turnstile"
	"turnstile/internal/chat/receipt"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// sentAfter submits a message that must follow another one.
func sentAfter(b *actors.Bench, id, after string) string {
	b.Helper()
	r, err := receipt.Input(b.Ctx, b.Client.Session(actors.Key), turnstile.Message{ID: id, Text: id, After: after})
	expect.OK(b, err)
	if r.Status == receipt.Refused && !errors.Is(r.Err, session.ErrNotLast) {
		b.Errorf("%s: %v", id, r.Err)
	}
	return string(r.Status)
}

// A message that must follow another one is refused unless that one is the session's last.
func TestAMessageFollowsTheLastOne(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	expect.Equal(t, "behind nothing", sentAfter(b, "x", "a"), "refused")
	sent(b, "a", "a")
	expect.Equal(t, "while it waits", sentAfter(b, "b", "a"), "accepted")
	expect.Equal(t, "the same again", sentAfter(b, "b", "a"), "duplicate")
	expect.Equal(t, "a fork in the line", sentAfter(b, "x", "a"), "refused")
	expect.List(t, "run", b.Drain(), "a", "b")
	expect.Equal(t, "a fork", sentAfter(b, "x", "a"), "refused")
	expect.Equal(t, "the same after its end", sentAfter(b, "b", "a"), "duplicate")
	expect.Equal(t, "behind the end", sentAfter(b, "c", "b"), "accepted")
	expect.List(t, "run", b.Drain(), "c")
	_, err := b.Client.Session(actors.Key).NewTranscript(b.Ctx)
	expect.OK(t, err)
	expect.Equal(t, "in a new conversation", sentAfter(b, "x", "c"), "refused")
	sent(b, "d", "d")
	if r, err := receipt.Input(b.Ctx, b.Client.Session(actors.Key), turnstile.Message{ID: "b", Text: "b", After: "d"}); !errors.Is(r.Err, session.ErrConflict) {
		t.Errorf("the id of one that followed another: %+v, %v", r, err)
	}
	expect.Equal(t, "which has begun", sentAfter(b, "e", "d"), "accepted")
	_, err = receipt.Input(b.Ctx, b.Client.Session(actors.Key), turnstile.Message{ID: "f", Text: "f", After: "e", Delay: time.Second})
	if !errors.Is(err, session.ErrInvalid) {
		t.Errorf("delayed: %v", err)
	}
	_, err = receipt.Input(b.Ctx, b.Client.Session(actors.Key), turnstile.Message{ID: "f", Text: "f", After: " "})
	if !errors.Is(err, session.ErrInvalid) {
		t.Errorf("behind no id: %v", err)
	}
}

func TestAMessageFollowsARunningTurn(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	sent(b, "a", "a")
	turn := b.Claim()
	expect.Equal(t, "while it runs", sentAfter(b, "b", "a"), "queued")
	expect.Equal(t, "a fork behind the line", sentAfter(b, "x", "a"), "refused")
	expect.Equal(t, "the turn continues with the next", b.Finish(turn), true)
	expect.List(t, "it runs", actors.MessageIDs(turn), "b")
}

// The last turn was undone, and the one before it is not remembered.
func TestNothingFollowsAnUndoneTurn(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	sent(b, "a", "a")
	sent(b, "b", "b")
	expect.List(t, "run", b.Drain(), "a", "b")
	_, err := b.Client.Session(actors.Key).Undo(b.Ctx)
	expect.OK(t, err)
	expect.Equal(t, "the undone one", sentAfter(b, "x", "b"), "refused")
	expect.Equal(t, "the one before", sentAfter(b, "x", "a"), "refused")
	sent(b, "c", "c")
	expect.List(t, "run", b.Drain(), "c")
	expect.Equal(t, "the next one", sentAfter(b, "d", "c"), "accepted")
}
