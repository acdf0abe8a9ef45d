package protocol_test

import (
	"errors"
	"testing"
	"time"

	"turnstile"
	"turnstile/internal/chat/receipt"
	"turnstile/internal/protocol"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// After a retry a session's messages take the fast paths again.
func TestFastPathAfterARetry(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	expect.OK(t, b.Start().Retry(b.Ctx, errors.New("no"), time.Millisecond, 0))
	expect.Soon(t, "the end of the backoff", func() bool {
		claims, err := b.Worker.Claim(b.Ctx, []string{actors.Key})
		expect.OK(t, err)
		if len(claims) == 1 {
			b.Finish(claims[0])
		}
		return len(claims) == 1
	})
	b.Say("b")
	b.Drain()
	faults := &redistest.Faults{}
	b.Redis.AddHook(faults)
	for _, full := range []string{"accept", "claim", "finish"} {
		faults.FailBefore(actors.FullPath(full), -1, errors.New("the full path is taken"))
	}
	b.Say("c")
	expect.Equal(t, "has a next turn", b.Finish(b.Claim()), false)
}

// A repeated Send leaves a waiting message's quiet window as it is.
func TestRepeatedSendLeavesTheQuietWindow(t *testing.T) {
	t.Parallel()
	for name, running := range map[string]bool{"behind a turn": true, "in an idle session": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t, func(c *protocol.Config) { c.Line.Debounce = session.Millis(time.Hour) })
			b.Say("now")
			var h *protocol.Claim
			if running {
				h = b.Start()
			}
			b.Say("x", session.ModeCollect)
			window := func() string { return b.Redis.HGet(b.Ctx, b.Keys.Task(b.Task("x")), "quiet").Val() }
			was := window()
			if was == "" {
				t.Fatal("x does not wait for more")
			}
			if running {
				_, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusDone, Release: true})
				expect.OK(t, err)
				b.Say("other", session.ModeCollect) // it waits, too
			}
			said := b.Redis.Time(b.Ctx).Val().UnixMilli()
			expect.Soon(t, "another ms, in which a new window would be another", func() bool {
				return b.Redis.Time(b.Ctx).Val().UnixMilli() > said
			})
			b.Say("x", session.ModeCollect)
			expect.Equal(t, "quiet window", window(), was)
		})
	}
}

// A queue of one message has no room next to a delayed one.
func TestLineOfOneCountsDelayedMessages(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	client := actors.NewClientWith(b.Redis, turnstile.ClientConfig{Limits: session.Limits{Queue: 1}})
	_, err := receipt.Input(b.Ctx, client.Session(actors.Key), turnstile.Message{ID: "later", Text: "later", Delay: time.Hour})
	expect.OK(t, err)
	r, err := receipt.Input(b.Ctx, client.Session(actors.Key), turnstile.Message{ID: "a", Text: "a"})
	expect.OK(t, err)
	expect.Equal(t, "status", r.Status, receipt.Refused)
	expect.Equal(t, "reason", r.Reason, "line")
}
