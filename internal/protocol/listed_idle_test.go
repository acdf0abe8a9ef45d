package protocol_test

import (
	"testing"
	"time"

	"turnstile/internal/protocol"
	"turnstile/internal/rediskey"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// With ListIdle every session stays on the list until it is forgotten, and one that a
// worker without it has taken off comes back with its next message.
func TestListIdle(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t, func(c *protocol.Config) { c.ListIdle, c.Retention, c.SessionTTL = true, 0, time.Hour })
	b.Say("a")
	b.Drain()
	expect.Equal(t, "names", unregister(b), 0)
	expect.Equal(t, "listed", b.Listed(actors.Key), true)

	n, err := actors.NewWorker(t, b.Redis, "two").Unregister(b.Ctx)
	expect.OK(t, err)
	expect.Equal(t, "names that a worker without it takes off", n, 1)
	b.Say("b")
	b.Drain()
	expect.Equal(t, "listed again", b.Listed(actors.Key), true)

	b.MakeOld()
	n, err = b.Worker.Forget(b.Ctx)
	expect.OK(t, err)
	expect.Equal(t, "forgotten", n, 1)
	expect.Equal(t, "names", unregister(b), 1)
	expect.Equal(t, "listed when forgotten", b.Listed(actors.Key), false)
}

// Results of which no index knows are listed as well.
func TestListIdleFind(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t, func(c *protocol.Config) { c.ListIdle = true })
	b.Say("a")
	b.Drain()
	b.LoseIndexes()
	expect.Equal(t, "entered", b.Find(), 1)
	expect.Equal(t, "listed", b.Listed(actors.Key), true)
	expect.Equal(t, "known", b.IsIn(rediskey.Sessions, actors.Key), true)
	expect.Equal(t, "names", unregister(b), 0)
}
