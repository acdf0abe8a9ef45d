package protocol_test

import (
	"fmt"
	"testing"

	"turnstile"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// An idle session's line ends at 10,000: whoever rings is refused, and nothing is stored.
func TestSubmitIntoAFullLine(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Flood(9_999)
	expect.Equal(t, "the last", b.Say("last").Status, turnstile.Accepted)
	before := b.Redis.DBSize(b.Ctx).Val()
	r := b.Say("over")
	expect.Equal(t, "one more", string(r.Status)+" "+r.Reason, "refused line")
	expect.Equal(t, "stored", b.State("over"), "")
	expect.Equal(t, "in the line", b.Redis.LLen(b.Ctx, b.Keys.Pending()).Val(), 10_000)
	// The refusal is kept for a repetition.
	expect.Equal(t, "keys", b.Redis.DBSize(b.Ctx).Val()-before, 1)
	expect.Equal(t, "what is in stays", b.Say("last").Status, turnstile.Duplicate)
}

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
