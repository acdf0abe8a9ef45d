package protocol_test

import (
	"fmt"
	"testing"

	sq "turnstile/internal/protocol"
	"turnstile/internal/rediskey"
	"turnstile/test/expect"
)

// An Erase that ends half-way may have erased all that a stop had put aside: no worker
// is to look for it then, again and again.
func TestEraseOfWhatAStopHasPutAside(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.say("now")
	b.drain()
	for i := range 600 {
		b.enqueue(fmt.Sprint("m", i))
	}
	b.stopAndDie(called("stop"))
	fence := b.rdb.HGet(b.ctx, b.k.Run(), "fence").Val()
	for range 2 {
		expect.OK(t, sq.Do(b.ctx, b.rdb, "erase", sq.KeysOf(key, ""), nil, "fence", fence, "size", 500, "last", false).Err())
	}
	expect.Equal(t, "aside", b.rdb.LLen(b.ctx, b.k.Stopped()).Val(), 0)
	b.say("later")
	b.drain()
	b.rdb.Del(b.ctx, rediskey.Due)
	b.claimNothing("nothing is left")
	expect.Equal(t, "is claimed again", b.isIn(rediskey.Due, key), false)
	expect.Equal(t, "stopping", b.rdb.HGet(b.ctx, b.k.Run(), "stopping").Val(), "")
}

// What a dead sender's stop has put aside is found although the run record is gone, as
// a worker of an older version forgets it: that one does not know of the list.
func TestPutAsideWithoutARecord(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for i := range 600 {
		b.enqueue(fmt.Sprint("m", i))
	}
	b.stopAndDie(called("stop"))
	b.rdb.Del(b.ctx, b.k.Run(), b.k.Record())
	b.sweep()
	expect.List(t, "runs", b.work())
	b.nothingAside(600)
}
