package protocol_test

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
	"turnstile/internal/protocol"
	"turnstile/internal/redisconn"
	"turnstile/internal/rediskey"
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

// live gives the session all that one can have: two transcripts, a result, dead
// letters, what waits and what is delayed, settings, a title, counters of another
// day.
func useAll(b *actors.Bench) {
	b.Helper()
	b.SayAll("first")
	b.Drain()
	_, err := b.Client.Rotate(b.Ctx, actors.Key, "")
	expect.OK(b, err)
	b.SayAll("second", "stopped")
	b.Finish(b.Start())
	b.Die()
	_, err = b.Client.Stop(b.Ctx, actors.Key)
	expect.OK(b, err)
	b.Drain()
	expect.OK(b, b.Client.SetTitle(b.Ctx, actors.Key, "A title"))
	_, err = b.Client.Submit(b.Ctx, actors.Key, session.Message{ID: "delayed", Text: "x"}, turnstile.Delay(1e12))
	expect.OK(b, err)
	b.SayAll("waits")
	for _, counter := range []string{b.Keys.Processed(), b.Keys.Failed()} {
		expect.OK(b, b.Redis.Set(b.Ctx, counter+":2020-01-01", 1, 0).Err())
	}
}

func TestErase(t *testing.T) {
	t.Parallel()
	eachKind(t, func(b *actors.Bench) {
		expect.OK(b, b.Client.Erase(b.Ctx, actors.Key)) // of an unknown session there is nothing to erase

		useAll(b)
		transcripts := 0
		for _, name := range traces(b) {
			if strings.HasPrefix(name, b.Keys.TranscriptPrefix()) {
				transcripts++
			}
		}
		expect.Equal(b, "transcripts", transcripts, 2)
		other, err := b.Client.Submit(b.Ctx, actors.Key+"2", session.Message{Text: "another session"})
		expect.OK(b, err)

		h := b.Start()
		before := traces(b)
		if err := b.Client.Erase(b.Ctx, actors.Key); !errors.Is(err, session.ErrBusy) {
			b.Errorf("while a turn runs: %v", err)
		}
		expect.List(b, "after a refusal", traces(b), before...)
		b.Finish(h)

		expect.OK(b, b.Client.Erase(b.Ctx, actors.Key))
		expect.List(b, "left", traces(b))
		if s, err := b.Client.Session(b.Ctx, actors.Key+"2"); err != nil || s.Pending != 1 {
			b.Errorf("another session's message %s: %+v, %v", other.ID, s, err)
		}

		// It begins anew, with a fence that is higher.
		fence := h.Turn().Fence
		b.Say("waits")
		h = b.Start()
		if h.Turn().Fence <= fence || h.Turn().Entries != 0 {
			b.Errorf("the turn after it: %+v", h.Turn())
		}
		b.Finish(h)
	})
}

// What was erased begins anew with the clock as its fence: that is higher, also where
// turns of less than a ms have run ahead of it.
func TestEraseLeavesNoFenceInTheFuture(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	b.Drain()
	ahead := b.RedisTime().Add(100 * time.Millisecond).UnixMilli()
	expect.OK(t, b.Redis.HSet(b.Ctx, b.Keys.Run(), "fence", ahead).Err())
	expect.OK(t, b.Client.Erase(b.Ctx, actors.Key))
	expect.List(t, "left", traces(b))
	b.Say("b")
	if fence := b.Claim().Turn().Fence; fence <= ahead {
		t.Errorf("fence %d behind %d", fence, ahead)
	}
}

// A turn that ran between the look at the keys and the script has a transcript
// that nobody looked at.
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
			_, err := other.Client.Rotate(b.Ctx, actors.Key, "")
			expect.OK(t, err)
			other.Drain()
		})
	}))
	expect.OK(t, b.Client.Erase(b.Ctx, actors.Key))
	expect.List(t, "left", traces(b))
}

// A message that comes in at any moment of it is there and found, or gone.
func TestEraseWhileASenderSubmits(t *testing.T) {
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
						_, err := sender.Submit(b.Ctx, actors.Key, session.Message{ID: "new", Text: "new"})
						expect.OK(b, err)
					})
				}))
				expect.OK(b, b.Client.Erase(b.Ctx, actors.Key))
				newOrNothing(b, c.there)
			})
		})
	}
}

// newOrNothing checks that the message "new" begins the session, or that nothing
// is left.
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
	expect.Equal(b, "entries", len(b.Transcript(b.Info().SessionID)), 2)
}

// The same with a real sender beside it: no interleaving leaves a message that
// nobody finds, or a half one.
func TestEraseBesideSenders(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	for round := range 40 {
		b.Say(fmt.Sprintf("old-%d", round))
		b.Drain()
		b.Pop()
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := b.Client.Submit(b.Ctx, actors.Key, session.Message{ID: "new", Text: "new"})
			expect.OK(b, err)
		})
		err := b.Client.Erase(b.Ctx, actors.Key)
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
		expect.OK(b, b.Client.Erase(b.Ctx, actors.Key))
		expect.List(b, "left", traces(b))
	}
}

// Of many messages a script erases 500 at a time, and nothing is left in the end, nor of
// unique locks. A turn that begins meanwhile keeps what is left.
func TestEraseInBatches(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	fill := func() {
		for i := range 700 {
			b.Say(fmt.Sprint("stopped", i))
		}
		_, err := b.Client.Stop(b.Ctx, actors.Key)
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
	if err := b.Client.Erase(b.Ctx, actors.Key); !errors.Is(err, session.ErrBusy) {
		t.Errorf("a turn has begun: %v", err)
	}
	s := b.Info()
	expect.Equal(t, "dead letters left", s.Archived, 200)
	expect.Equal(t, "messages left in line", s.Pending, 699)
	b.Die()
	calls = 0
	expect.OK(t, b.Client.Erase(b.Ctx, actors.Key))
	expect.Equal(t, "calls", calls, 3) // of 500 messages; of 500 other keys, locks among them; of the rest
	expect.List(t, "left", traces(b))
	fill()
	expect.OK(t, b.Client.Erase(b.Ctx, actors.Key))
	expect.List(t, "left", traces(b))
}

// Whatever came since the keys were looked up, a script erases no more than a batch.
func TestEraseCountsWhatItErases(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	b.Drain()
	b.SayMany("new", 700)
	fence := b.Redis.HGet(b.Ctx, b.Keys.Run(), "fence").Val()
	var answers []string
	for range 3 {
		keys := protocol.KeysOf(actors.Key, b.Info().SessionID)
		got, err := protocol.Do(b.Ctx, b.Redis, "erase", keys, nil, "fence", fence, "size", 500, "last", true).Slice()
		expect.OK(t, err)
		answers = append(answers, fmt.Sprint(got...))
		if got[0] == "gone" {
			break
		}
	}
	expect.Equal(t, "answers", fmt.Sprint(answers), "[batch500 gone]")
}

// keysSeen is the most keys that a call of the erase script has named.
type keysSeen struct{ most int }

func (k *keysSeen) DialHook(next redis.DialHook) redis.DialHook { return next }

func (k *keysSeen) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if actors.Script("erase")(cmd) {
			n, _ := cmd.Args()[2].(int)
			k.most = max(k.most, n)
		}
		return next(ctx, cmd)
	}
}

func (k *keysSeen) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// A conversation that was begun anew a thousand times has as many transcripts.
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
	b.Redis.AddHook(seen)
	expect.OK(t, b.Client.Erase(b.Ctx, actors.Key))
	expect.Equal(t, "keys left", len(traces(b)), 0)
	expect.Equal(t, "the most keys of a call", seen.most, 522)
}
