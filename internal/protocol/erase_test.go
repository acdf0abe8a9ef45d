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
	sq "turnstile/internal/protocol"
	"turnstile/internal/redisconn"
	"turnstile/internal/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// eachKind runs a test on one Redis and on a cluster.
func eachKind(t *testing.T, test func(b *bench)) {
	t.Run("single", func(t *testing.T) {
		t.Parallel()
		test(newBench(t))
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		rdb, err := redisconn.Open(redistest.StartCluster(t).URL())
		expect.OK(t, err)
		t.Cleanup(func() { rdb.Close() })
		test(benchOn(t, rdb))
	})
}

// traces are the session's keys, and the indexes that name it.
func (b *bench) traces() (list []string) {
	b.Helper()
	var mu sync.Mutex
	node := func(ctx context.Context, rdb *redis.Client) error {
		names, err := rdb.Keys(ctx, "*"+b.k.Sentinel()[len("turnstile:"):len(b.k.Sentinel())-len("sentinel")]+"*").Result()
		mu.Lock()
		defer mu.Unlock()
		list = append(list, names...)
		return err
	}
	if cluster, ok := b.rdb.(*redis.ClusterClient); ok {
		expect.OK(b, cluster.ForEachMaster(b.ctx, node))
	} else {
		expect.OK(b, node(b.ctx, b.rdb.(*redis.Client)))
	}
	for _, index := range []string{rediskey.Ready, rediskey.Due, rediskey.Owned, rediskey.Sessions, rediskey.Unlisted} {
		if b.isIn(index, key) {
			list = append(list, index)
		}
	}
	if b.rdb.SIsMember(b.ctx, rediskey.AllQueues, rediskey.Queue(key)).Val() {
		list = append(list, rediskey.AllQueues)
	}
	slices.Sort(list)
	return list
}

// live gives the session all that one can have: two transcripts, a result, dead
// letters, what waits and what is delayed, settings, a title, counters of another
// day.
func (b *bench) live() {
	b.Helper()
	b.sayAll("first")
	b.drain()
	_, err := b.client.Rotate(b.ctx, key, "")
	expect.OK(b, err)
	b.sayAll("second", "stopped")
	b.finish(b.start())
	b.die()
	_, err = b.client.Stop(b.ctx, key)
	expect.OK(b, err)
	b.drain()
	expect.OK(b, b.client.SetTitle(b.ctx, key, "A title"))
	_, err = b.client.Submit(b.ctx, key, session.Message{ID: "delayed", Text: "x"}, turnstile.Delay(1e12))
	expect.OK(b, err)
	b.sayAll("waits")
	for _, counter := range []string{b.k.Processed(), b.k.Failed()} {
		expect.OK(b, b.rdb.Set(b.ctx, counter+":2020-01-01", 1, 0).Err())
	}
}

func TestErase(t *testing.T) {
	t.Parallel()
	eachKind(t, func(b *bench) {
		expect.OK(b, b.client.Erase(b.ctx, key)) // of an unknown session there is nothing to erase

		b.live()
		transcripts := 0
		for _, name := range b.traces() {
			if strings.HasPrefix(name, b.k.TranscriptPrefix()) {
				transcripts++
			}
		}
		expect.Equal(b, "transcripts", transcripts, 2)
		other, err := b.client.Submit(b.ctx, key+"2", session.Message{Text: "another session"})
		expect.OK(b, err)

		h := b.start()
		before := b.traces()
		if err := b.client.Erase(b.ctx, key); !errors.Is(err, session.ErrBusy) {
			b.Errorf("while a turn runs: %v", err)
		}
		expect.List(b, "after a refusal", b.traces(), before...)
		b.finish(h)

		expect.OK(b, b.client.Erase(b.ctx, key))
		expect.List(b, "left", b.traces())
		if s, err := b.client.Session(b.ctx, key+"2"); err != nil || s.Pending != 1 {
			b.Errorf("another session's message %s: %+v, %v", other.ID, s, err)
		}

		// It begins anew, with a fence that is higher.
		fence := h.Turn().Fence
		b.say("waits")
		h = b.start()
		if h.Turn().Fence <= fence || h.Turn().Entries != 0 {
			b.Errorf("the turn after it: %+v", h.Turn())
		}
		b.finish(h)
	})
}

// What was erased begins anew with the clock as its fence: that is higher, also where
// turns of less than a ms have run ahead of it.
func TestEraseLeavesNoFenceInTheFuture(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.say("a")
	b.drain()
	ahead := b.redisTime().Add(100 * time.Millisecond).UnixMilli()
	expect.OK(t, b.rdb.HSet(b.ctx, b.k.Run(), "fence", ahead).Err())
	expect.OK(t, b.client.Erase(b.ctx, key))
	expect.List(t, "left", b.traces())
	b.say("b")
	if fence := b.claim().Turn().Fence; fence <= ahead {
		t.Errorf("fence %d behind %d", fence, ahead)
	}
}

// A turn that ran between the look at the keys and the script has a transcript
// that nobody looked at.
func TestEraseAfterAnotherTurn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.live()
	options, err := redis.ParseURL(redistest.URL(t))
	expect.OK(t, err)
	bare := redis.NewClient(options)
	defer bare.Close()
	var once sync.Once
	b.rdb.AddHook(before(called("erase"), func() {
		once.Do(func() {
			other := benchOn(t, bare)
			_, err := other.client.Rotate(b.ctx, key, "")
			expect.OK(t, err)
			other.drain()
		})
	}))
	expect.OK(t, b.client.Erase(b.ctx, key))
	expect.List(t, "left", b.traces())
}

// A message that comes in at any moment of it is there and found, or gone.
func TestEraseWhileASenderSubmits(t *testing.T) {
	t.Parallel()
	isErase := called("erase")
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
			eachKind(t, func(b *bench) {
				b.live()
				sender := actors.NewClient(b.rdb)
				var once sync.Once
				b.rdb.AddHook(before(c.match, func() {
					once.Do(func() {
						_, err := sender.Submit(b.ctx, key, session.Message{ID: "new", Text: "new"})
						expect.OK(b, err)
					})
				}))
				expect.OK(b, b.client.Erase(b.ctx, key))
				b.newOrNothing(c.there)
			})
		})
	}
}

// newOrNothing checks that the message "new" begins the session, or that nothing
// is left.
func (b *bench) newOrNothing(there bool) {
	b.Helper()
	if !there {
		expect.List(b, "left", b.traces())
		return
	}
	expect.List(b, "in line", b.waiting(), "new")
	expect.List(b, "popped", b.pop(), key)
	for _, index := range []string{rediskey.Owned, rediskey.Sessions} {
		if !b.isIn(index, key) {
			b.Errorf("%s does not name the session: %s", index, b.dump())
		}
	}
	expect.List(b, "drained", b.drain(), "new")
	expect.Equal(b, "status", b.outcome("new").Status, session.StatusDone)
	expect.Equal(b, "entries", len(b.transcript(b.info().SessionID)), 2)
}

// The same with a real sender beside it: no interleaving leaves a message that
// nobody finds, or a half one.
func TestEraseBesideSenders(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for round := range 40 {
		b.say(fmt.Sprintf("old-%d", round))
		b.drain()
		b.pop()
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := b.client.Submit(b.ctx, key, session.Message{ID: "new", Text: "new"})
			expect.OK(b, err)
		})
		err := b.client.Erase(b.ctx, key)
		wg.Wait()
		expect.OK(b, err)
		if len(b.waiting()) > 0 {
			b.newOrNothing(true)
		} else {
			for _, name := range b.traces() {
				if strings.Contains(name, "{") {
					b.Errorf("left of the message that is gone: %s", name)
				}
			}
		}
		expect.OK(b, b.client.Erase(b.ctx, key))
		expect.List(b, "left", b.traces())
	}
}

// Of many messages a script erases 500 at a time, and nothing is left in the end, nor of
// unique locks. A turn that begins meanwhile keeps what is left.
func TestEraseInBatches(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	fill := func() {
		for i := range 700 {
			b.say(fmt.Sprint("stopped", i))
		}
		_, err := b.client.Stop(b.ctx, key)
		expect.OK(t, err)
		for i := range 700 {
			b.enqueue(fmt.Sprint("m", i), asynq.Unique(time.Hour))
		}
	}
	fill()
	calls, claimed := 0, false
	b.rdb.AddHook(behind(called("erase"), func() {
		if calls++; !claimed {
			claimed = true
			b.claim()
		}
	}))
	if err := b.client.Erase(b.ctx, key); !errors.Is(err, session.ErrBusy) {
		t.Errorf("a turn has begun: %v", err)
	}
	s := b.info()
	expect.Equal(t, "dead letters left", s.Archived, 200)
	expect.Equal(t, "messages left in line", s.Pending, 699)
	b.die()
	calls = 0
	expect.OK(t, b.client.Erase(b.ctx, key))
	expect.Equal(t, "calls", calls, 3) // of 500 messages; of 500 other keys, locks among them; of the rest
	expect.List(t, "left", b.traces())
	fill()
	expect.OK(t, b.client.Erase(b.ctx, key))
	expect.List(t, "left", b.traces())
}

// Whatever came since the keys were looked up, a script erases no more than a batch.
func TestEraseCountsWhatItErases(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.say("a")
	b.drain()
	b.numbered("new", 700)
	fence := b.rdb.HGet(b.ctx, b.k.Run(), "fence").Val()
	var answers []string
	for range 3 {
		keys := sq.KeysOf(key, b.info().SessionID)
		got, err := sq.Do(b.ctx, b.rdb, "erase", keys, nil, "fence", fence, "size", 500, "last", true).Slice()
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
		if called("erase")(cmd) {
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
	b := newBench(t)
	b.say("a")
	b.drain()
	p := b.rdb.Pipeline()
	for i := range 1200 {
		p.RPush(b.ctx, b.k.Transcript(fmt.Sprint("earlier", i)), "{}")
	}
	_, err := p.Exec(b.ctx)
	expect.OK(t, err)
	seen := &keysSeen{}
	b.rdb.AddHook(seen)
	expect.OK(t, b.client.Erase(b.ctx, key))
	expect.Equal(t, "keys left", len(b.traces()), 0)
	expect.Equal(t, "the most keys of a call", seen.most, 522)
}
