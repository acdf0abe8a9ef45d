package protocol_test

import (
	"errors"
	"testing"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/lease"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// kept returns the agent state that the claim's turn gets from an earlier one.
func kept(b *actors.Bench, h *protocol.Claim) string {
	b.Helper()
	past, err := h.History(b.Ctx)
	expect.OK(b, err)
	return string(past.State)
}

// The session's next turn gets the agent state on any worker, unless the transcript was changed
// since.
func TestAgentStateReachesTheNextTurn(t *testing.T) {
	t.Parallel()
	const data = `{"id":"x"}`
	for name, c := range map[string]struct {
		between func(b *actors.Bench, h *protocol.Claim)
		want    string
	}{
		"a turn that ended well": {func(b *actors.Bench, h *protocol.Claim) {
			expect.OK(b, h.StoreState(b.Ctx, []byte(data), 2))
			b.Finish(h) // two entries
		}, data},
		"a turn that failed": {func(b *actors.Bench, h *protocol.Claim) {
			expect.OK(b, h.StoreState(b.Ctx, []byte(data), 0))
			_, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusFailed, Error: "why", Release: true})
			expect.OK(b, err)
		}, data},
		"a turn whose worker died": {func(b *actors.Bench, h *protocol.Claim) {
			expect.OK(b, h.StoreState(b.Ctx, []byte(data), 0))
			b.Die()
		}, data},
		"a turn whose worker died between keep and finish": {func(b *actors.Bench, h *protocol.Claim) {
			expect.OK(b, h.StoreState(b.Ctx, []byte(data), 2))
			b.Die()
		}, data},
		"a turn that was undone": {func(b *actors.Bench, h *protocol.Claim) {
			expect.OK(b, h.StoreState(b.Ctx, []byte(data), 2))
			b.Finish(h)
			_, err := b.Client.Session(actors.Key).Undo(b.Ctx)
			expect.OK(b, err)
		}, ""},
		"a turn of an agent that keeps nothing": {func(b *actors.Bench, h *protocol.Claim) {
			expect.OK(b, h.StoreState(b.Ctx, []byte(data), 2))
			b.Finish(h)
			b.Say("other")
			b.Finish(b.Start())
		}, ""},
		"a turn whose worker died, and another agent has run the message": {func(b *actors.Bench, h *protocol.Claim) {
			expect.OK(b, h.StoreState(b.Ctx, []byte(data), 2))
			b.Die()
			b.Finish(b.Start()) // two entries as well
		}, ""},
		"a turn that was taken back after its worker's death": {func(b *actors.Bench, h *protocol.Claim) {
			expect.OK(b, h.StoreState(b.Ctx, []byte(data), 0))
			b.Say("urgent", session.ModeRollback)
			b.Die()
		}, ""},
		"a turn that was stopped after its worker's death": {func(b *actors.Bench, h *protocol.Claim) {
			expect.OK(b, h.StoreState(b.Ctx, []byte(data), 0))
			b.Command("/stop")
			b.Die()
		}, data},
		"a transcript that has expired": {func(b *actors.Bench, h *protocol.Claim) {
			expect.OK(b, h.StoreState(b.Ctx, []byte(data), 2))
			id := h.Turn().TranscriptID
			b.Finish(h)
			expect.OK(b, b.Redis.Del(b.Ctx, b.Keys.Transcript(id)).Err())
		}, ""},
		"another conversation": {func(b *actors.Bench, h *protocol.Claim) {
			expect.OK(b, h.StoreState(b.Ctx, []byte(data), 2))
			b.Finish(h)
			_, err := b.Client.Session(actors.Key).NewTranscript(b.Ctx)
			expect.OK(b, err)
		}, ""},
		"nothing stored any more": {func(b *actors.Bench, h *protocol.Claim) {
			expect.OK(b, h.StoreState(b.Ctx, []byte(data), 2))
			expect.OK(b, h.StoreState(b.Ctx, nil, 2))
			b.Finish(h)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			b.Say("first")
			h := b.Start()
			expect.Equal(t, "state before", kept(b, h), "")
			c.between(b, h)
			b.Say("second")
			expect.Equal(t, "state", kept(b, b.Start()), c.want)
		})
	}
}

// Only the owner stores agent state, and only for its own turn.
func TestKeepOfALostTurn(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("first")
	old := b.Start()
	expect.OK(t, old.StoreState(b.Ctx, []byte(`1`), 2))
	b.Die()
	h := b.Start()
	expect.OK(t, h.StoreState(b.Ctx, []byte(`2`), 2))
	if err := old.StoreState(b.Ctx, []byte(`3`), 2); !errors.Is(err, lease.ErrLost) {
		t.Errorf("%v, want ErrLost", err)
	}
	expect.Equal(t, "state", kept(b, h), `2`)
	expect.OK(t, b.Client.Operate("another").Erase(b.Ctx))
	b.Finish(h)
	expect.OK(t, b.Client.Operate(actors.Key).Erase(b.Ctx))
	expect.Equal(t, "after erase", b.Redis.Exists(b.Ctx, b.Keys.State()).Val(), 0)
}
