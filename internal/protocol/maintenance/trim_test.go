package maintenance_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"turnstile/internal/protocol"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// Trim leaves room for what a turn returns, also while the turn waits to go on.
func TestTrimBehindATurnThatWaits(t *testing.T) {
	t.Parallel()
	b := actors.NewBenchWithCap(t, 2)
	b.Say("a")
	h := b.Start()
	b.SayAll("b", "c")
	expect.OK(t, h.Park(b.Ctx, protocol.Parking{Interrupted: "drain"}))
	b.Enqueue("plain")
	b.TrimAll()
	expect.List(t, "the line", b.Waiting(), "b", "c", "plain")
	b.Enqueue("more")
	b.TrimAll()
	expect.List(t, "the line", b.Waiting(), "b", "c", "plain")
	expect.Equal(t, "more", b.Outcome("more").Status, session.StatusDropped)
	expect.Equal(t, "the turn", b.Start().Turn().Message.ID, "a")
}

// Trim archives delayed messages of other producers too, those that are due last first, also while
// the session runs, and whatever index it is in.
func TestTrimOfDelayedMessages(t *testing.T) {
	t.Parallel()
	b := actors.NewBenchWithCap(t, 1)
	b.Say("a")
	b.Start()
	for i := range 5 {
		b.Enqueue(fmt.Sprint("d", i), asynq.ProcessIn(time.Duration(i+1)*time.Hour))
	}
	b.TrimAll()
	expect.Equal(t, "waiting", b.Redis.ZCard(b.Ctx, b.Keys.Scheduled()).Val(), 2)
	for i := range 5 {
		want := map[bool]string{true: "scheduled", false: "archived"}[i < 2]
		expect.Equal(t, fmt.Sprint("d", i), b.State(fmt.Sprint("d", i)), want)
	}
}

// The sweep archives the newest messages of other producers above the cap and one turn's messages.
// Operators see the reason.
func TestTrimOfALine(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Flood(10_800)
	b.TrimAll()
	expect.Equal(t, "in the line", b.Redis.LLen(b.Ctx, b.Keys.Pending()).Val(), 10_500)
	expect.Equal(t, "archived", b.Redis.ZCard(b.Ctx, b.Keys.Archived()).Val(), 300)
	expect.Equal(t, "the oldest", b.Redis.LIndex(b.Ctx, b.Keys.Pending(), -1).Val(), b.Task("f0"))
	o := b.Outcome("f10799")
	expect.Equal(t, "the newest", fmt.Sprint(o.Status, " ", o.Error), "dropped dropped: more than 10500 messages were waiting")
}
