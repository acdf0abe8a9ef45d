package protocol_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/rediskey"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// A full Redis refuses what adds to an index, and not what takes out of one. Should it
// have become full while Due is at work, a session whose time has come stays where it is
// until it can enter another index.
func TestDueWhenRedisFillsUp(t *testing.T) {
	t.Parallel()
	redistest.Real(t)
	server := redistest.StartServer(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { rdb.Close() })
	b, gated := benchOn(t, server.Client()), benchOn(t, rdb)
	b.enqueue("a")
	now := b.rdb.Time(b.ctx).Val().UnixMilli()
	b.rdb.ZAdd(b.ctx, rediskey.Due, redis.Z{Score: float64(now), Member: key}, redis.Z{Score: 1, Member: "late"})
	faults := &redistest.Faults{}
	begun := faults.GateReply(redistest.Named("set")) // its timer's key
	rdb.AddHook(faults)
	failed := make(chan error, 1)
	go func() {
		_, err := gated.c.Due(b.ctx)
		failed <- err
	}()
	<-begun.Arrived()
	expect.OK(t, b.rdb.ConfigSet(b.ctx, "maxmemory", "1").Err())
	begun.Release()
	err := <-failed
	expect.OK(t, b.rdb.ConfigSet(b.ctx, "maxmemory", "0").Err())
	if err == nil {
		t.Error("no error")
	}
	expect.List(t, "due", b.rdb.ZRange(b.ctx, rediskey.Due, 0, -1).Val(), "late", key)
	b.due()
	expect.List(t, "ready", b.pop(), key)
}
