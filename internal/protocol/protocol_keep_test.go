package protocol_test

import (
	"errors"
	"testing"

	"turnstile/internal/lease"
	sq "turnstile/internal/protocol"
	"turnstile/pkg/session"
	"turnstile/test/expect"
)

// kept is what the turn of a hold finds of an earlier one's state.
func (b *bench) kept(h *sq.Claim) string {
	b.Helper()
	past, err := h.History(b.ctx)
	expect.OK(b, err)
	return string(past.State)
}

// What an agent keeps is there for the session's next turn, whoever runs it, as
// long as nobody else has touched the transcript.
func TestAgentStateReachesTheNextTurn(t *testing.T) {
	t.Parallel()
	const data = `{"id":"x"}`
	for name, c := range map[string]struct {
		between func(b *bench, h *sq.Claim)
		want    string
	}{
		"a turn that ended well": {func(b *bench, h *sq.Claim) {
			expect.OK(b, h.StoreState(b.ctx, []byte(data), 2))
			b.finish(h) // two entries
		}, data},
		"a turn that failed": {func(b *bench, h *sq.Claim) {
			expect.OK(b, h.StoreState(b.ctx, []byte(data), 0))
			_, err := h.Finish(b.ctx, sq.End{Status: session.StatusFailed, Error: "why", Release: true})
			expect.OK(b, err)
		}, data},
		"a turn whose worker died": {func(b *bench, h *sq.Claim) {
			expect.OK(b, h.StoreState(b.ctx, []byte(data), 0))
			b.die()
		}, data},
		"a turn whose worker died between keep and finish": {func(b *bench, h *sq.Claim) {
			expect.OK(b, h.StoreState(b.ctx, []byte(data), 2))
			b.die()
		}, data},
		"a turn that was undone": {func(b *bench, h *sq.Claim) {
			expect.OK(b, h.StoreState(b.ctx, []byte(data), 2))
			b.finish(h)
			_, err := b.client.Undo(b.ctx, key)
			expect.OK(b, err)
		}, ""},
		"a turn of an agent that keeps nothing": {func(b *bench, h *sq.Claim) {
			expect.OK(b, h.StoreState(b.ctx, []byte(data), 2))
			b.finish(h)
			b.say("other")
			b.finish(b.start())
		}, ""},
		"a turn whose worker died, and another agent has run the message": {func(b *bench, h *sq.Claim) {
			expect.OK(b, h.StoreState(b.ctx, []byte(data), 2))
			b.die()
			b.finish(b.start()) // two entries as well
		}, ""},
		"a turn that was taken back after its worker's death": {func(b *bench, h *sq.Claim) {
			expect.OK(b, h.StoreState(b.ctx, []byte(data), 0))
			b.say("urgent", session.ModeRollback)
			b.die()
		}, ""},
		"a turn that was stopped after its worker's death": {func(b *bench, h *sq.Claim) {
			expect.OK(b, h.StoreState(b.ctx, []byte(data), 0))
			b.command("/stop")
			b.die()
		}, data},
		"a transcript that has expired": {func(b *bench, h *sq.Claim) {
			expect.OK(b, h.StoreState(b.ctx, []byte(data), 2))
			id := h.Turn().SessionID
			b.finish(h)
			expect.OK(b, b.rdb.Del(b.ctx, b.k.Transcript(id)).Err())
		}, ""},
		"another conversation": {func(b *bench, h *sq.Claim) {
			expect.OK(b, h.StoreState(b.ctx, []byte(data), 2))
			b.finish(h)
			_, err := b.client.Rotate(b.ctx, key, "")
			expect.OK(b, err)
		}, ""},
		"nothing kept any more": {func(b *bench, h *sq.Claim) {
			expect.OK(b, h.StoreState(b.ctx, []byte(data), 2))
			expect.OK(b, h.StoreState(b.ctx, nil, 2))
			b.finish(h)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.say("first")
			h := b.start()
			expect.Equal(t, "kept before", b.kept(h), "")
			c.between(b, h)
			b.say("second")
			expect.Equal(t, "kept", b.kept(b.start()), c.want)
		})
	}
}

// Only the owner keeps anything, and only for its own turn.
func TestKeepOfALostTurn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.say("first")
	old := b.start()
	expect.OK(t, old.StoreState(b.ctx, []byte(`1`), 2))
	b.die()
	h := b.start()
	expect.OK(t, h.StoreState(b.ctx, []byte(`2`), 2))
	if err := old.StoreState(b.ctx, []byte(`3`), 2); !errors.Is(err, lease.ErrLost) {
		t.Errorf("%v, want ErrLost", err)
	}
	expect.Equal(t, "kept", b.kept(h), `2`)
	expect.OK(t, b.client.Erase(b.ctx, "another"))
	b.finish(h)
	expect.OK(t, b.client.Erase(b.ctx, key))
	expect.Equal(t, "after erase", b.rdb.Exists(b.ctx, b.k.State()).Val(), 0)
}
