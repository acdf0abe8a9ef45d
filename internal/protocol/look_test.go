package protocol_test

import (
	"testing"
	"time"

	"turnstile/internal/protocol"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// For the last millisecond of its life a sentinel's PTTL is 0, and it is there: a
// session that is called ready then is claimed in vain, and its wake-up is lost.
func TestLookAtASentinelsLastMillisecond(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t, func(c *protocol.Config) { c.StuckLimit = 1000 })
	b.Say("a")
	for range 30 {
		b.Start() // must not be held any more
		expect.OK(t, b.Redis.PExpire(b.Ctx, b.Keys.Sentinel(), 3*time.Millisecond).Err())
		what := "held"
		for what == "held" {
			reply, err := protocol.Do(b.Ctx, b.Redis, "look", protocol.KeysOf(actors.Key, ""), nil).Slice()
			expect.OK(t, err)
			what, _ = reply[1].(string)
		}
		expect.Equal(t, "after the sentinel's end", what, "ready")
	}
}
