package protocol_test

import (
	"testing"
	"time"

	"turnstile/internal/protocol"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// In its last millisecond a sentinel exists with a PTTL of 0. A session that look called ready then
// would be claimed in vain, and its wake-up lost.
func TestLookAtASentinelsLastMillisecond(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t, func(c *protocol.Config) { c.StuckLimit = 1000 })
	b.Say("a")
	for range 30 {
		b.Start() // fails if it is still owned
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
