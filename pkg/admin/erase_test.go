package admin_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/redis/redisconn"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// eachKind runs a test on one Redis and on a cluster.
func eachKind(t *testing.T, test func(b *actors.Bench)) {
	t.Run("single", func(t *testing.T) {
		t.Parallel()
		test(actors.NewBench(t))
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		rdb, err := redisconn.Open(redistest.StartCluster(t).URL())
		expect.OK(t, err)
		t.Cleanup(func() { rdb.Close() })
		test(actors.BenchOn(t, rdb))
	})
}

// traces are the session's keys, and the indexes that name it.
func traces(b *actors.Bench) (list []string) {
	b.Helper()
	var mu sync.Mutex
	node := func(ctx context.Context, rdb *redis.Client) error {
		names, err := rdb.Keys(ctx, "*"+b.Keys.Sentinel()[len("turnstile:"):len(b.Keys.Sentinel())-len("sentinel")]+"*").Result()
		mu.Lock()
		defer mu.Unlock()
		list = append(list, names...)
		return err
	}
	if cluster, ok := b.Redis.(*redis.ClusterClient); ok {
		expect.OK(b, cluster.ForEachMaster(b.Ctx, node))
	} else {
		expect.OK(b, node(b.Ctx, b.Redis.(*redis.Client)))
	}
	for _, index := range []string{rediskey.Ready, rediskey.Due, rediskey.Owned, rediskey.Sessions, rediskey.Unlisted} {
		if b.IsIn(index, actors.Key) {
			list = append(list, index)
		}
	}
	if b.Redis.SIsMember(b.Ctx, rediskey.AllQueues, rediskey.Queue(actors.Key)).Val() {
		list = append(list, rediskey.AllQueues)
	}
	slices.Sort(list)
	return list
}

// useAll gives the session all that one can have: two transcripts, a result, dead letters, waiting
// and delayed messages, settings, a title, counters of another day.
func useAll(b *actors.Bench) {
	b.Helper()
	b.SayAll("first")
	b.Drain()
	_, err := b.Client.Session(actors.Key).NewTranscript(b.Ctx)
	expect.OK(b, err)
	b.SayAll("second", "stopped")
	b.Finish(b.Start())
	b.Die()
	_, err = b.Client.Session(actors.Key).Stop(b.Ctx)
	expect.OK(b, err)
	b.Drain()
	expect.OK(b, b.Client.Session(actors.Key).SetTitle(b.Ctx, "A title"))
	_, err = b.Client.Session(actors.Key).Send(b.Ctx, turnstile.Message{ID: "delayed", Text: "x", Delay: 1e12})
	expect.OK(b, err)
	b.SayAll("waits")
	for _, counter := range []string{b.Keys.Processed(), b.Keys.Failed()} {
		expect.OK(b, b.Redis.Set(b.Ctx, counter+":2020-01-01", 1, 0).Err())
	}
}

func TestErase(t *testing.T) {
	t.Parallel()
	eachKind(t, func(b *actors.Bench) {
		expect.OK(b, b.Client.Operate(actors.Key).Erase(b.Ctx)) // an unknown session: nothing to erase

		useAll(b)
		transcripts := 0
		for _, name := range traces(b) {
			if strings.HasPrefix(name, b.Keys.TranscriptPrefix()) {
				transcripts++
			}
		}
		expect.Equal(b, "transcripts", transcripts, 2)
		other, err := b.Client.Session(actors.Key+"2").Send(b.Ctx, turnstile.Message{Text: "another session"})
		expect.OK(b, err)

		h := b.Start()
		before := traces(b)
		if err := b.Client.Operate(actors.Key).Erase(b.Ctx); !errors.Is(err, session.ErrBusy) {
			b.Errorf("while a turn runs: %v", err)
		}
		expect.List(b, "after a refusal", traces(b), before...)
		b.Finish(h)

		expect.OK(b, b.Client.Operate(actors.Key).Erase(b.Ctx))
		expect.List(b, "left", traces(b))
		if s, err := b.Client.Session(actors.Key + "2").Info(b.Ctx); err != nil || s.Waiting != 1 {
			b.Errorf("another session's message %s: %+v, %v", other.ID, s, err)
		}

		// It begins again, with a higher fencing token.
		fence := h.Turn().Fence
		b.Say("waits")
		h = b.Start()
		if h.Turn().Fence <= fence || h.Turn().Entries != 0 {
			b.Errorf("the turn after it: %+v", h.Turn())
		}
		b.Finish(h)
	})
}

// An erased session begins again with the clock as its fencing token. That is higher, also if turns
// of less than a millisecond had run ahead of the clock.
func TestEraseLeavesNoFenceInTheFuture(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	b.Drain()
	ahead := b.RedisTime().Add(100 * time.Millisecond).UnixMilli()
	expect.OK(t, b.Redis.HSet(b.Ctx, b.Keys.Run(), "fence", ahead).Err())
	expect.OK(t, b.Client.Operate(actors.Key).Erase(b.Ctx))
	expect.List(t, "left", traces(b))
	b.Say("b")
	if fence := b.Claim().Turn().Fence; fence <= ahead {
		t.Errorf("fence %d behind %d", fence, ahead)
	}
}

// Statistics of earlier days are keys too, which the keys of the day of the erasure do not include.
func TestEraseAfterMoreThanOneDay(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	b.Drain()
	expect.OK(t, b.Redis.Set(b.Ctx, b.Keys.Processed()+":2001-02-03", 7, 0).Err())
	expect.OK(t, b.Redis.Set(b.Ctx, b.Keys.Failed()+":2001-02-03", 7, 0).Err())
	ctx, cancel := context.WithTimeout(b.Ctx, expect.Patience)
	defer cancel()
	expect.OK(t, b.Client.Operate(actors.Key).Erase(ctx))
	expect.List(t, "keys that are left", b.Redis.Keys(b.Ctx, b.Keys.Any()).Val())
}
