package turnstile_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// A sender does not know how many events the owner keeps, so it trims none.
func TestSendersLeaveTheOwnersEvents(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t, func(c *protocol.Config) { c.EventsCap = 10_000 })
	b.Say("a")
	b.Start()
	_, err := b.Redis.Pipelined(b.Ctx, func(p redis.Pipeliner) error {
		for range 3000 {
			p.XAdd(b.Ctx, &redis.XAddArgs{Stream: b.Keys.Events(), Values: []any{"e", `{"type":"notice"}`}})
		}
		return nil
	})
	expect.OK(t, err)
	for _, text := range []string{"b", "/status", "/stop"} {
		before := b.Redis.XLen(b.Ctx, b.Keys.Events()).Val()
		b.Say(text)
		if after := b.Redis.XLen(b.Ctx, b.Keys.Events()).Val(); after < before {
			t.Errorf("%s: %d events became %d", text, before, after)
		}
	}
}
