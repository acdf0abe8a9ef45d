package turnstile_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/internal/chat/receipt"
	"turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// The sender dies, or loses Redis, at each of its commands in turn: either nothing is stored or the
// sweep finds it, and the same Submit again stores one message.
func TestB82_SubmitBrokenAnywhere(t *testing.T) {
	t.Parallel()
	for _, after := range []bool{false, true} {
		for n := 0; ; n++ {
			broke := false
			t.Run(fmt.Sprintf("after=%v/%d", after, n), func(t *testing.T) {
				b := actors.NewBench(t)
				b.Say("earlier")
				b.Drain()
				b.LoseIndexes()
				faults := &redistest.Faults{}
				b.Redis.AddHook(faults)
				left := n
				nth := func(redis.Cmder) bool { left--; return left == -1 }
				if after {
					faults.LoseReply(nth, 1)
				} else {
					faults.FailBefore(nth, 1, redistest.ErrLostReply)
				}
				_, err := receipt.Input(b.Ctx, b.Client.Session(actors.Key), turnstile.Message{ID: "m", Text: "m"})
				broke = err != nil
				faults.Clear()
				if stored := b.State("m") != ""; stored && !b.IsIn(rediskey.Ready, actors.Key) {
					expect.Equal(t, "woken by the sweep", b.Sweep(), 1)
				}
				r := b.Say("m")
				if r.Status != receipt.Accepted && r.Status != receipt.Duplicate {
					t.Errorf("submitted again: %s", r.Status)
				}
				if !b.IsIn(rediskey.Ready, actors.Key) {
					t.Error("no worker was notified")
				}
				expect.List(t, "runs", b.Drain(), "m")
				expect.Equal(t, "submitted after the end", b.Say("m").State, "completed")
				expect.List(t, "runs after the end", b.Drain())
			})
			if !broke {
				break
			}
		}
	}
}

// The same ID, sent before, while and after its message runs, is one turn (B82).
func TestB82_Duplicates(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	dup := func(state string) {
		t.Helper()
		r := b.Say("a")
		expect.Equal(t, "status", r.Status, receipt.Duplicate)
		expect.Equal(t, "state", string(r.State), state)
	}
	expect.Equal(t, "first", b.Say("a").Status, receipt.Accepted)
	dup("pending")
	h := b.Claim()
	dup("running")
	expect.OK(t, h.Promote(b.Ctx))
	dup("running")
	b.Say("b")
	expect.Equal(t, "b again", b.Say("b").State, "pending")
	expect.Equal(t, "b's place", b.Say("b").Position, 2)
	b.Finish(h)
	dup("completed")
	expect.OK(t, h.Promote(b.Ctx))
	_, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusFailed, Error: "no"})
	expect.OK(t, err)
	expect.Equal(t, "b archived", b.Say("b").State, "archived")
	_, err = receipt.Input(b.Ctx, b.Client.Session(actors.Key), turnstile.Message{ID: "c", Text: "c", Delay: time.Hour})
	expect.OK(t, err)
	r := b.Say("c")
	expect.Equal(t, "c", string(r.Status)+" "+string(r.State), "duplicate scheduled")
	expect.List(t, "runs", b.Drain())
	expect.List(t, "transcript", b.Transcript(h.Turn().TranscriptID), "a", "re: a")

	// After its retention the ID is still remembered, and a day later it is free.
	b.Redis.ZAdd(b.Ctx, b.Keys.Completed(), redis.Z{Score: 1, Member: b.Task("a")})
	n, err := b.Worker.Purge(b.Ctx)
	expect.OK(t, err)
	expect.Equal(t, "purged", n, 1)
	r = b.Say("a")
	expect.Equal(t, "again", string(r.Status)+" "+r.Reason, "refused expired")
	if !errors.Is(r.Err, session.ErrExpired) {
		t.Errorf("error: %v", r.Err)
	}
	expect.OK(t, b.Redis.Del(b.Ctx, b.Keys.Idem("a")).Err())
	expect.Equal(t, "a day later", b.Say("a").Status, receipt.Accepted)
}
