package protocol_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/rediskey"
	"turnstile/test/actors"
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
	b, gated := actors.BenchOn(t, server.Client()), actors.BenchOn(t, rdb)
	b.Enqueue("a")
	now := b.Redis.Time(b.Ctx).Val().UnixMilli()
	b.Redis.ZAdd(b.Ctx, rediskey.Due, redis.Z{Score: float64(now), Member: actors.Key}, redis.Z{Score: 1, Member: "late"})
	faults := &redistest.Faults{}
	begun := faults.GateReply(redistest.Named("set")) // its timer's key
	rdb.AddHook(faults)
	failed := make(chan error, 1)
	go func() {
		_, err := gated.Worker.Due(b.Ctx)
		failed <- err
	}()
	<-begun.Arrived()
	expect.OK(t, b.Redis.ConfigSet(b.Ctx, "maxmemory", "1").Err())
	begun.Release()
	err := <-failed
	expect.OK(t, b.Redis.ConfigSet(b.Ctx, "maxmemory", "0").Err())
	if err == nil {
		t.Error("no error")
	}
	expect.List(t, "due", b.Redis.ZRange(b.Ctx, rediskey.Due, 0, -1).Val(), "late", actors.Key)
	b.Due()
	expect.List(t, "ready", b.Pop(), actors.Key)
}
