package recovery_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/internal/protocol/rediskey"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// A full Redis refuses writes that add to an index, and allows removals. If it fills up while Due
// works, a due session stays in the due index until another index takes it.
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

// Due wakes a session that has to wait again. The claim enters it anew, and that entry stays.
func TestDueKeepsWhatAClaimEnters(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	_, err := b.Client.Session(actors.Key).Send(b.Ctx, turnstile.Message{ID: "a", Text: "a", Delay: time.Hour})
	expect.OK(t, err)
	b.Redis.ZAdd(b.Ctx, rediskey.Due, redis.Z{Score: float64(time.Now().UnixMilli()), Member: actors.Key}) // of a message that is gone
	b.Redis.AddHook(&afterPipeline{key: rediskey.Ready, do: func() {
		expect.List(t, "popped", b.Pop(), actors.Key)
		b.ClaimNothing("it is delayed")
	}})
	b.Due()
	expect.Equal(t, "due", b.IsIn(rediskey.Due, actors.Key), true)
}

func TestDue(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	b.Pop()
	b.Redis.Del(b.Ctx, rediskey.Owned)
	now := time.Now()
	b.Redis.ZAdd(b.Ctx, rediskey.Due, redis.Z{Score: float64(now.UnixMilli()), Member: actors.Key},
		redis.Z{Score: float64(now.Add(time.Hour).UnixMilli()), Member: "later"})
	pause, err := b.Worker.Due(b.Ctx)
	expect.OK(t, err)
	if pause <= 0 || pause > time.Second {
		t.Errorf("pause %s", pause)
	}
	expect.Equal(t, "owned before ready", b.IsIn(rediskey.Owned, actors.Key), true)
	expect.List(t, "ready", b.Pop(), actors.Key)
	expect.List(t, "due", b.Redis.ZRange(b.Ctx, rediskey.Due, 0, -1).Val(), "later")
}

// A session stays if its time changes while Due moves it.
func TestDueRace(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Redis.ZAdd(b.Ctx, rediskey.Due, redis.Z{Score: 5, Member: "s"})
	b.Redis.AddHook(&afterPipeline{do: func() { b.Redis.ZAdd(b.Ctx, rediskey.Due, redis.Z{Score: 3, Member: "s"}) }})
	_, err := b.Worker.Due(b.Ctx)
	expect.OK(t, err)
	expect.Equal(t, "due", b.Redis.ZScore(b.Ctx, rediskey.Due, "s").Val(), 3)
}
