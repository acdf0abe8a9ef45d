package actors

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/internal/chat/receipt"
	"turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/expect"
)

// Say sends a message, with its text as its ID, or a command, which has no ID.
func (b *Bench) Say(text string, mode ...session.Mode) receipt.Receipt {
	b.Helper()
	m := turnstile.Message{ID: text, Text: text}
	if strings.HasPrefix(text, "/") {
		m.ID = ""
	}
	if len(mode) > 0 {
		m.Mode = mode[0]
	}
	r, err := receipt.Input(b.Ctx, b.Chat(), m)
	expect.OK(b, err)
	return r
}

// SayAll sends several messages.
func (b *Bench) SayAll(texts ...string) {
	b.Helper()
	for _, text := range texts {
		b.Say(text)
	}
}

// Claim claims the session, which must be ready. As a worker does, it first ends a turn that is only to end.
func (b *Bench) Claim() *protocol.Claim {
	b.Helper()
	for {
		h := b.tryClaim()
		if h == nil {
			b.Fatalf("the session was not claimed: %s", b.Dump())
		}
		if b.Settle(h) {
			return h
		}
	}
}

// tryClaim claims the session, again as long as claims say so. nil: it cannot be claimed.
func (b *Bench) tryClaim() *protocol.Claim {
	b.Helper()
	ready := b.Redis.ZScore(b.Ctx, rediskey.Ready, Key)
	for {
		expect.OK(b, b.Redis.ZRem(b.Ctx, rediskey.Ready, Key).Err())
		claims, err := b.Worker.Claim(b.Ctx, []string{Key})
		expect.OK(b, err)
		switch {
		case len(claims) > 0:
			return claims[0]
		case b.IsIn(rediskey.Ready, Key):
		case ready.Err() == nil: // as it was
			expect.OK(b, b.Redis.ZAdd(b.Ctx, rediskey.Ready, redis.Z{Score: ready.Val(), Member: Key}).Err())
			return nil
		default:
			return nil
		}
	}
}

// Settle ends a turn that is only to end. It returns whether the claim then has a turn to run.
func (b *Bench) Settle(h *protocol.Claim) (more bool) {
	b.Helper()
	more, err := EndUnrun(b.Ctx, h)
	expect.OK(b, err)
	return more
}

// EndUnrun ends a turn that is only to end, with what its journal has. It returns whether the claim then has a turn
// to run.
func EndUnrun(ctx context.Context, h *protocol.Claim) (more bool, err error) {
	turn := h.Turn()
	end := protocol.End{Release: true}
	for _, m := range turn.Messages()[len(turn.Starters()):] {
		if turn.Carries == "" { // no output has it
			end.Untaken = append(end.Untaken, m.Message.ID)
		}
	}
	var dead protocol.GivenUpError
	switch {
	case turn.Ends == nil:
		return true, nil
	case errors.Is(turn.Ends, protocol.ErrStopRequested):
		end.Status, end.Error = session.StatusStopped, "stopped by user"
	case errors.Is(turn.Ends, protocol.ErrRollbackRequested):
		end.Status, end.Error, end.Rollback = session.StatusInterrupted, "rolled back by a newer message", true
		if err := h.StoreState(ctx, nil, 0); err != nil {
			return false, err
		}
	case errors.As(turn.Ends, &dead):
		end.Status, end.Error, end.Code = session.StatusFailed, dead.Error(), session.CodeWorkerDied
	default:
		end.Status, end.Error = session.StatusInterrupted, "interrupted by a newer message"
	}
	if !end.Rollback {
		var state json.RawMessage
		if end.Entries, state, err = entries(ctx, h); err == nil && state != nil {
			err = h.StoreState(ctx, state, len(end.Entries))
		}
		if err != nil {
			return false, err
		}
	}
	return h.Finish(ctx, end)
}

// entries are those of a turn that is only to end, and its agent's state.
func entries(ctx context.Context, h *protocol.Claim) (list []session.Entry, state json.RawMessage, _ error) {
	turn := h.Turn()
	for _, m := range turn.Messages() {
		list = append(list, session.Entry{Role: session.RoleUser, Text: m.Message.Text, Message: m.Message.ID, Meta: m.Message.Meta, Turn: turn.ID})
	}
	past, err := h.History(ctx)
	if err != nil || past.Earlier == nil {
		return list, past.State, err
	}
	for _, e := range past.Earlier.Entries {
		if e.Role != session.RoleUser {
			e.Turn = turn.ID
			list = append(list, e)
		}
	}
	return list, past.State, nil
}

// ClaimNothing claims the session, which must have no turn to run. As a worker does, it first ends a turn that is only
// to end.
func (b *Bench) ClaimNothing(why string) {
	b.Helper()
	for h := b.tryClaim(); h != nil; h = b.tryClaim() {
		if b.Settle(h) {
			b.Fatalf("claimed message %q although %s", h.Turn().Message.ID, why)
		}
	}
}

// Start claims and promotes.
func (b *Bench) Start() *protocol.Claim {
	b.Helper()
	h := b.Claim()
	expect.OK(b, h.Promote(b.Ctx))
	return h
}

// Renew renews the claim, which is a sign of life.
func (b *Bench) Renew(h *protocol.Claim) {
	b.Helper()
	expect.OK(b, b.Worker.Renew(b.Ctx, []*protocol.Claim{h})[0].Err)
}

// Finish ends the turn with success.
func (b *Bench) Finish(h *protocol.Claim) (more bool) {
	b.Helper()
	more, err := h.Finish(b.Ctx, b.Done(h))
	expect.OK(b, err)
	return more
}

// Done is the end of a turn with success: an entry for each message, and one for the reply to the
// first.
func (b *Bench) Done(h *protocol.Claim) protocol.End {
	turn := h.Turn()
	end := protocol.End{Status: session.StatusDone, Reply: "re: " + turn.Message.Text, Told: len(turn.Dropped)}
	for _, m := range turn.Messages() {
		end.Entries = append(end.Entries, session.Entry{Role: session.RoleUser, Text: m.Message.Text, Message: m.Message.ID, Meta: m.Message.Meta, Turn: turn.ID})
	}
	end.Entries = append(end.Entries, session.Entry{Role: session.RoleAssistant, Text: end.Reply, Turn: turn.ID})
	return end
}

// Drain runs all messages and returns their IDs.
func (b *Bench) Drain() (ids []string) {
	b.Helper()
	for {
		h := b.tryClaim()
		if h == nil {
			return ids
		}
		for more := b.Settle(h); more; {
			ids = append(ids, h.Turn().Message.ID)
			more = b.Finish(h)
		}
	}
}

// Work runs all ready sessions, as workers do, and returns the messages' ids.
func (b *Bench) Work() (ids []string) {
	b.Helper()
	for b.IsIn(rediskey.Ready, Key) {
		b.Redis.Del(b.Ctx, rediskey.Ready)
		ids = append(ids, b.Drain()...)
	}
	return ids
}

// Die removes the sentinel, as its TTL does after a worker's death.
func (b *Bench) Die() { expect.OK(b, b.Redis.Del(b.Ctx, b.Keys.Sentinel()).Err()) }

// EndDies claims a turn that is only to end, and its worker dies, beyond doubt. The next claim ends the turn, without
// entries.
func (b *Bench) EndDies() {
	b.Helper()
	h := b.tryClaim()
	if h == nil || h.Turn().Ends == nil {
		b.Fatalf("no turn is only to end: %s", b.Dump())
	}
	b.Renew(h)
	b.Die()
	b.Doubt()
}

// Doubt claims the session of a dead owner. It is in doubt for another TTL, which Doubt lets pass.
func (b *Bench) Doubt() {
	b.Helper()
	b.ClaimNothing("its owner may live")
	if !b.DoubtEnds() {
		b.Fatalf("nobody is in doubt: %s", b.Dump())
	}
}

// DoubtEnds lets the TTL pass within which an owner in doubt may report that it lives. It returns
// false if no owner is in doubt.
func (b *Bench) DoubtEnds() bool {
	b.Helper()
	if b.Redis.Get(b.Ctx, b.Keys.Sentinel()).Val() != "in doubt" {
		return false
	}
	b.Die()
	return true
}

// ErrFlaky is the error of a turn to be retried.
var ErrFlaky = errors.New("flaky")

// MessageIDs returns the IDs of a turn's messages.
func MessageIDs(h *protocol.Claim) (ids []string) {
	for _, m := range h.Turn().Messages() {
		ids = append(ids, m.Message.ID)
	}
	return ids
}

// Checkpoint stores the entries of a running turn so far, as a worker does whose agent has no steps.
func Checkpoint(ctx context.Context, h *protocol.Claim, entries []session.Entry) error {
	w := protocol.JournalWrite{Entries: map[int]session.Entry{}, Count: len(entries)}
	for i, e := range entries {
		w.Entries[i] = e
	}
	for _, m := range h.Turn().Messages() {
		w.Messages = append(w.Messages, m.Message.ID)
	}
	_, err := h.Journal(ctx, w)
	return err
}
