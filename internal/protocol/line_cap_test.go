package protocol_test

import (
	"fmt"
	"testing"

	"turnstile/test/actors"
	"turnstile/test/expect"
)

// What plain producers have put in beyond that is archived by the sweep, a turn's worth
// above the cap: the newest, with the reason. What an operator sees says so.
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
