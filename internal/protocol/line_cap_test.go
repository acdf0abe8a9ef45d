package protocol_test

import (
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/internal/rediskey"
	"turnstile/test/expect"
)

// flood puts messages in as plain asynq.Clients do, many at once.
func (b *bench) flood(n int) {
	b.Helper()
	_, err := b.rdb.Pipelined(b.ctx, func(p redis.Pipeliner) error {
		for i := range n {
			id := b.task(fmt.Sprint("f", i))
			p.HSet(b.ctx, b.k.Task(id), "msg", "", "state", "pending", "pending_since", "1")
			p.LPush(b.ctx, b.k.Pending(), id)
		}
		p.SAdd(b.ctx, rediskey.AllQueues, rediskey.Queue(key))
		return nil
	})
	expect.OK(b, err)
}

// An idle session's line ends at 10,000: whoever rings is refused, and nothing is stored.
func TestSubmitIntoAFullLine(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.flood(9_999)
	expect.Equal(t, "the last", b.say("last").Status, turnstile.Accepted)
	before := b.rdb.DBSize(b.ctx).Val()
	r := b.say("over")
	expect.Equal(t, "one more", string(r.Status)+" "+r.Reason, "refused line")
	expect.Equal(t, "stored", b.state("over"), "")
	expect.Equal(t, "in the line", b.rdb.LLen(b.ctx, b.k.Pending()).Val(), 10_000)
	// The refusal is kept for a repetition.
	expect.Equal(t, "keys", b.rdb.DBSize(b.ctx).Val()-before, 1)
	expect.Equal(t, "what is in stays", b.say("last").Status, turnstile.Duplicate)
}

// What plain producers have put in beyond that is archived by the sweep, a turn's worth
// above the cap: the newest, with the reason. What an operator sees says so.
func TestTrimOfALine(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.flood(10_800)
	b.trimAll()
	expect.Equal(t, "in the line", b.rdb.LLen(b.ctx, b.k.Pending()).Val(), 10_500)
	expect.Equal(t, "archived", b.rdb.ZCard(b.ctx, b.k.Archived()).Val(), 300)
	expect.Equal(t, "the oldest", b.rdb.LIndex(b.ctx, b.k.Pending(), -1).Val(), b.task("f0"))
	o := b.outcome("f10799")
	expect.Equal(t, "the newest", fmt.Sprint(o.Status, " ", o.Error), "dropped dropped: more than 10500 messages were waiting")
}
