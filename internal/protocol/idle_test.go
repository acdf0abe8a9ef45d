package protocol_test

import (
	"testing"

	"turnstile/internal/protocol"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// Most sessions are idle, so finish deletes fields that only a turn needs, on both of its paths.
// The name of a worker that keeps agents warm stays: senders notify it of the next message first.
func TestIdleSessionKeepsLittle(t *testing.T) {
	t.Parallel()
	for name, warm := range map[string]bool{"cold": false, "warm": true} {
		for path, renewed := range map[string]bool{"fast": false, "full": true} {
			t.Run(name+" "+path, func(t *testing.T) {
				t.Parallel()
				b := actors.NewBench(t, func(c *protocol.Config) { c.Warm = warm })
				has := func(field string) bool { return b.Redis.HExists(b.Ctx, b.Keys.Run(), field).Val() }
				for _, text := range []string{"a", "b"} {
					b.Say(text)
					h := b.Claim()
					if renewed {
						b.Renew(h)
					}
					for _, field := range []string{"token", "started_at", "worker"} {
						expect.Equal(t, field+" in the turn of "+text, has(field), true)
					}
					expect.Equal(t, "more", b.Finish(h), false)
					for _, field := range []string{"token", "started_at", "done"} {
						expect.Equal(t, field+" after the turn of "+text, has(field), false)
					}
					expect.Equal(t, "worker after the turn of "+text, has("worker"), warm)
					expect.Equal(t, "pending_since", b.Redis.HExists(b.Ctx, b.Keys.Task(b.Task(text)), "pending_since").Val(), false)
				}
			})
		}
	}
}
