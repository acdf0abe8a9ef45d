package protocol_test

import (
	"testing"
	"time"

	sq "turnstile/internal/protocol"
	"turnstile/internal/rediskey"
	"turnstile/test/expect"
)

// With ListIdle every session stays on the list until it is forgotten, and one that a
// worker without it has taken off comes back with its next message.
func TestListIdle(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(c *sq.Config) { c.ListIdle, c.Retention, c.SessionTTL = true, 0, time.Hour })
	b.say("a")
	b.drain()
	expect.Equal(t, "names", b.unregister(), 0)
	expect.Equal(t, "listed", b.listed(key), true)

	n, err := newWorker(t, b.rdb, "two").Unregister(b.ctx)
	expect.OK(t, err)
	expect.Equal(t, "names that a worker without it takes off", n, 1)
	b.say("b")
	b.drain()
	expect.Equal(t, "listed again", b.listed(key), true)

	b.old()
	n, err = b.c.Forget(b.ctx)
	expect.OK(t, err)
	expect.Equal(t, "forgotten", n, 1)
	expect.Equal(t, "names", b.unregister(), 1)
	expect.Equal(t, "listed when forgotten", b.listed(key), false)
}

// Results of which no index knows are listed as well.
func TestListIdleFind(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(c *sq.Config) { c.ListIdle = true })
	b.say("a")
	b.drain()
	b.lose()
	expect.Equal(t, "entered", b.find(), 1)
	expect.Equal(t, "listed", b.listed(key), true)
	expect.Equal(t, "known", b.isIn(rediskey.Sessions, key), true)
	expect.Equal(t, "names", b.unregister(), 0)
}
