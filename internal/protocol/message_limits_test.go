package protocol_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"turnstile/internal/chat/receipt"
	"turnstile/internal/protocol"
	"turnstile/internal/protocol/wire"
	"turnstile/pkg/admin"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// The worker checks the messages of other producers: one over a limit is archived, and the next one
// runs.
func TestPlainMessagesOverALimit(t *testing.T) {
	t.Parallel()
	for what, m := range actors.OverLimits() {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			payload, err := m.Payload()
			expect.OK(t, err)
			b.EnqueueTask(wire.TaskType, string(payload), b.Task("large"))
			h := b.Claim()
			if err := h.Turn().Err; !errors.Is(err, session.ErrInvalid) || !strings.Contains(fmt.Sprint(err), what) {
				t.Errorf("%.200v", err)
			}
		})
	}
}

// A message that is far too long does not leave Redis. The claim archives it unread, the archive
// has its length and not its content, and its waiting sender gets the outcome.
func TestTooLongToBeRead(t *testing.T) {
	t.Parallel()
	large := `{"v":1,"text":"x","meta":{"k":"` + strings.Repeat("x", 3<<20) + `"}}`
	b := actors.NewBench(t)
	for i := range 3 {
		b.EnqueueTask(wire.TaskType, large, b.Task(fmt.Sprint("large", i)))
	}
	b.Say("small")
	for b.State("large2") == "pending" {
		if claims, err := b.Worker.Claim(b.Ctx, []string{actors.Key}); err != nil || len(claims) > 0 {
			t.Fatalf("claimed %d: %v", len(claims), err)
		}
		expect.Equal(t, "is to be claimed again", b.Redis.ZScore(b.Ctx, "turnstile:ready", actors.Key).Err(), nil)
	}
	for i := range 3 {
		id := fmt.Sprint("large", i)
		expect.Equal(t, "state", b.State(id), "archived")
		if n := b.Redis.HStrLen(b.Ctx, b.Keys.Task(b.Task(id)), "msg").Val(); n > 1000 {
			t.Errorf("%d bytes are stored", n)
		}
		o := b.Outcome(id)
		expect.Equal(t, "status", o.Status, session.StatusFailed)
		if !strings.Contains(o.Error, "bytes, at most 2359296 are allowed; its content was not kept") {
			t.Errorf("error: %s", o.Error)
		}
		info := inspect(b, id)
		expect.Equal(t, "asynqmon: its error", info.LastErr, o.Error)
		expect.Equal(t, "asynqmon: its queue and type", info.Queue+" "+info.Type, "session:"+actors.Key+" turnstile:message")
	}
	expect.List(t, "runs", b.Drain(), "small")
	expect.Equal(t, "dead letters", len(b.Dead(actors.Key)), 3)
	n, err := b.Client.Operate(actors.Key).Rerun(b.Ctx, admin.All)
	expect.OK(t, err)
	expect.Equal(t, "run again", n, 3)
	if err := b.Claim().Turn().Err; !errors.Is(err, session.ErrInvalid) || !strings.Contains(err.Error(), "was not kept") {
		t.Errorf("%v", err)
	}
}

// It is not steered in and not collected. A stop and a full queue archive it like others.
func TestTooLongElsewhere(t *testing.T) {
	t.Parallel()
	large := `{"v":1,"text":"x","meta":{"k":"` + strings.Repeat("x", 3<<20) + `"}}`
	put := func(b *actors.Bench, id string) { b.EnqueueTask(wire.TaskType, large, b.Task(id)) }
	short := func(b *actors.Bench, id string) {
		b.Helper()
		expect.Equal(b, "state", b.State(id), "archived")
		if n := b.Redis.HStrLen(b.Ctx, b.Keys.Task(b.Task(id)), "msg").Val(); n > 1000 {
			b.Errorf("%d bytes are stored", n)
		}
	}
	t.Run("steer", func(t *testing.T) {
		t.Parallel()
		b := actors.NewBench(t)
		b.Say("a")
		h := b.Start()
		put(b, "s")
		expect.Equal(t, "another Send of it", b.Say("s", session.ModeSteer).Status, receipt.Duplicate)
		steered, err := h.Steer(b.Ctx)
		expect.OK(t, err)
		expect.Equal(t, "steered", len(steered), 0)
		more, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusDone})
		expect.OK(t, err)
		expect.Equal(t, "the next turn takes it", more, false)
		b.ClaimNothing("it is archived")
		short(b, "s")
	})
	t.Run("stop", func(t *testing.T) {
		t.Parallel()
		b := actors.NewBench(t)
		put(b, "p")
		_, err := b.Client.Session(actors.Key).Stop(b.Ctx)
		expect.OK(t, err)
		short(b, "p")
	})
	t.Run("full", func(t *testing.T) {
		t.Parallel()
		b := actors.NewBench(t, func(c *protocol.Config) { c.Line.Cap, c.Line.Drop = 1, "old" })
		b.Say("a")
		b.Start()
		put(b, "p")
		b.Say("b")
		short(b, "p")
		expect.List(t, "the line", b.Waiting(), "b")
	})
	t.Run("a dead owner's", func(t *testing.T) {
		t.Parallel()
		b := actors.NewBench(t)
		b.Say("a")
		b.Start()
		expect.OK(t, b.Redis.HSet(b.Ctx, b.Keys.Task(b.Task("a")), "msg", strings.Repeat("x", 3<<20)).Err())
		b.Die()
		b.ClaimNothing("it comes back")
		b.ClaimNothing("and is archived")
		short(b, "a")
	})
}
