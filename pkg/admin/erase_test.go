package admin_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
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

// A script deletes 500 messages at a time. In the end nothing is left, not even unique locks. A
// turn that begins meanwhile keeps the rest.
func TestEraseInBatches(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	fill := func() {
		for i := range 700 {
			b.Say(fmt.Sprint("stopped", i))
		}
		_, err := b.Client.Session(actors.Key).Stop(b.Ctx)
		expect.OK(t, err)
		for i := range 700 {
			b.Enqueue(fmt.Sprint("m", i), asynq.Unique(time.Hour))
		}
	}
	fill()
	calls, claimed := 0, false
	b.Redis.AddHook(actors.Behind(actors.Script("erase"), func() {
		if calls++; !claimed {
			claimed = true
			b.Claim()
		}
	}))
	if err := b.Client.Operate(actors.Key).Erase(b.Ctx); !errors.Is(err, session.ErrBusy) {
		t.Errorf("a turn has begun: %v", err)
	}
	s := b.Info()
	expect.Equal(t, "dead letters left", s.DeadLetters, 200)
	expect.Equal(t, "messages left in line", s.Waiting, 699)
	b.Die()
	calls = 0
	expect.OK(t, b.Client.Operate(actors.Key).Erase(b.Ctx))
	expect.Equal(t, "calls", calls, 3) // of 500 messages; of 500 other keys, locks among them; of the rest
	expect.List(t, "left", traces(b))
	fill()
	expect.OK(t, b.Client.Operate(actors.Key).Erase(b.Ctx))
	expect.List(t, "left", traces(b))
}

// A session after a thousand /new has as many transcripts.
func TestEraseOfManyTranscripts(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	b.Drain()
	p := b.Redis.Pipeline()
	for i := range 1200 {
		p.RPush(b.Ctx, b.Keys.Transcript(fmt.Sprint("earlier", i)), "{}")
	}
	_, err := p.Exec(b.Ctx)
	expect.OK(t, err)
	seen := &keysSeen{}
	b.Redis.AddHook(actors.Hook(seen.around))
	expect.OK(t, b.Client.Operate(actors.Key).Erase(b.Ctx))
	expect.Equal(t, "keys left", len(traces(b)), 0)
	expect.Equal(t, "the most keys of a call", seen.most, 528)
}

// keysSeen is the largest number of keys that a call of the erase script had.
type keysSeen struct{ most int }

func (k *keysSeen) around(cmds []redis.Cmder, send func() error) error {
	if actors.Script("erase")(cmds[0]) {
		n, _ := cmds[0].Args()[2].(int)
		k.most = max(k.most, n)
	}
	return send()
}

// A turn that runs between the look at the keys and the script has a transcript that the look did
// not see.
func TestEraseAfterAnotherTurn(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	useAll(b)
	options, err := redis.ParseURL(redistest.URL(t))
	expect.OK(t, err)
	bare := redis.NewClient(options)
	defer bare.Close()
	var once sync.Once
	b.Redis.AddHook(actors.Before(actors.Script("erase"), func() {
		once.Do(func() {
			other := actors.BenchOn(t, bare)
			_, err := other.Client.Session(actors.Key).NewTranscript(b.Ctx)
			expect.OK(t, err)
			other.Drain()
		})
	}))
	expect.OK(t, b.Client.Operate(actors.Key).Erase(b.Ctx))
	expect.List(t, "left", traces(b))
}

// A message that comes at any moment of an erase is found later, or erased.
func TestEraseWhileASenderSends(t *testing.T) {
	t.Parallel()
	isErase := actors.Script("erase")
	for name, c := range map[string]struct {
		match redistest.Match
		there bool
	}{
		"before the script":  {isErase, false},
		"after the script":   {redistest.Named("zrem"), true},
		"before it is found": {redistest.Named("exists"), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachKind(t, func(b *actors.Bench) {
				useAll(b)
				sender := actors.NewClient(b.Redis)
				var once sync.Once
				b.Redis.AddHook(actors.Before(c.match, func() {
					once.Do(func() {
						_, err := sender.Session(actors.Key).Send(b.Ctx, turnstile.Message{ID: "new", Text: "new"})
						expect.OK(b, err)
					})
				}))
				expect.OK(b, b.Client.Operate(actors.Key).Erase(b.Ctx))
				newOrNothing(b, c.there)
			})
		})
	}
}

// The same with a real sender: no interleaving leaves a message that no worker finds, or half of
// one.
func TestEraseBesideSenders(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	for round := range 40 {
		b.Say(fmt.Sprintf("old-%d", round))
		b.Drain()
		b.Pop()
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := b.Client.Session(actors.Key).Send(b.Ctx, turnstile.Message{ID: "new", Text: "new"})
			expect.OK(b, err)
		})
		err := b.Client.Operate(actors.Key).Erase(b.Ctx)
		wg.Wait()
		expect.OK(b, err)
		if len(b.Waiting()) > 0 {
			newOrNothing(b, true)
		} else {
			for _, name := range traces(b) {
				if strings.Contains(name, "{") {
					b.Errorf("left of the message that is gone: %s", name)
				}
			}
		}
		expect.OK(b, b.Client.Operate(actors.Key).Erase(b.Ctx))
		expect.List(b, "left", traces(b))
	}
}

// A session that is used while it is being erased stays known to recovery.
func TestEraseFindsATurnThatBeganMeanwhile(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	b.Drain()
	other := actors.NewClient(b.Redis)
	done := false
	b.Redis.AddHook(actors.Behind(actors.Script("erase"), func() {
		if done {
			return
		}
		done = true
		_, err := other.Session(actors.Key).Send(b.Ctx, turnstile.Message{ID: "late", Text: "late"})
		expect.OK(t, err)
		b.Claim()
	}))
	if err := b.Client.Operate(actors.Key).Erase(b.Ctx); err != nil && !errors.Is(err, session.ErrBusy) {
		t.Fatalf("erased: %v", err)
	}
	b.Die() // before its first renewal
	b.Sweep()
	b.Reap()
	expect.List(t, "runs", b.Drain(), "late")
	if !b.IsIn("turnstile:sessions", actors.Key) {
		t.Error("no sweep will find the session")
	}
}

// newOrNothing checks that the message "new" begins the session, or that nothing is left.
func newOrNothing(b *actors.Bench, there bool) {
	b.Helper()
	if !there {
		expect.List(b, "left", traces(b))
		return
	}
	expect.List(b, "in line", b.Waiting(), "new")
	expect.List(b, "popped", b.Pop(), actors.Key)
	for _, index := range []string{rediskey.Owned, rediskey.Sessions} {
		if !b.IsIn(index, actors.Key) {
			b.Errorf("%s does not name the session: %s", index, b.Dump())
		}
	}
	expect.List(b, "drained", b.Drain(), "new")
	expect.Equal(b, "status", b.Outcome("new").Status, session.StatusDone)
	expect.Equal(b, "entries", len(b.Transcript(b.Info().TranscriptID)), 2)
}
