package protocol_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	sq "turnstile/internal/protocol"
	"turnstile/internal/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

func (b *bench) find() (entered int) {
	b.Helper()
	n, err := b.c.Find(b.ctx)
	expect.OK(b, err)
	return n
}

// A plain asynq.Client tells a queue's name once in its life. What it puts in when that
// was taken away is found all the same, and so is what only a delay, a retry or a
// result remembers.
func TestFind(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t testing.TB) redis.UniversalClient{
		"one Redis": redistest.New,
		"Cluster": func(t testing.TB) redis.UniversalClient {
			redistest.Real(t)
			return redistest.StartCluster(t).Client()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := benchOn(t, open(t))
			plain := asynq.NewClientFromRedisClient(b.rdb)
			put := func(id string, opts ...asynq.Option) {
				t.Helper()
				payload, err := session.Message{ID: id, Text: id}.EncodePayload()
				expect.OK(t, err)
				_, err = plain.Enqueue(asynq.NewTask(session.TaskType, payload),
					append(opts, asynq.Queue(rediskey.Queue(key)), asynq.TaskID(b.task(id)))...)
				expect.OK(t, err)
			}
			put("a")
			expect.Equal(t, "a: woken", b.sweep(), 1)
			expect.List(t, "runs", b.drain(), "a")
			b.lose()
			put("b")
			expect.Equal(t, "b: the sweep alone", b.sweep(), 0)
			expect.Equal(t, "b: entered", b.find(), 1)
			expect.Equal(t, "b: woken", b.sweep(), 1)
			expect.List(t, "runs", b.drain(), "b")
			b.lose()
			put("c", asynq.ProcessIn(time.Hour))
			expect.Equal(t, "c: entered", b.find(), 1)
			b.sweep()
			expect.Equal(t, "c: due", b.isIn(rediskey.Due, key), true)
			expect.Equal(t, "entered again", b.find(), 0)
			expect.OK(t, b.inspector().DeleteTask(rediskey.Queue(key), b.task("c")))

			b.lose()
			expect.Equal(t, "results: entered", b.find(), 1)
			expect.Equal(t, "known", b.isIn(rediskey.Sessions, key), true)
			expect.Equal(t, "results alone are listed", b.listed(key), false)
		})
	}
}

// A record that no message ever came to, and asynq's counters of a session that was
// forgotten, as versions before this one have left them, go with the next Forget.
func TestFindWhatWasLeft(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(c *sq.Config) { c.SessionTTL = time.Hour })
	expect.OK(t, b.client.Configure(b.ctx, key, session.QueueSettings{Cap: 3}))
	b.old()
	b.lose()
	expect.OK(t, b.rdb.Set(b.ctx, rediskey.For("gone").Processed(), 7, 0).Err())
	expect.Equal(t, "entered", b.find(), 2)
	expect.Equal(t, "listed", b.rdb.SCard(b.ctx, rediskey.AllQueues).Val(), 0)
	n, err := b.c.Forget(b.ctx)
	expect.OK(t, err)
	expect.Equal(t, "forgotten", n, 2)
	b.rdb.Del(b.ctx, rediskey.Scan)
	if left := b.rdb.Keys(b.ctx, "*").Val(); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// A search that is cut short goes on where it was left off, by another worker too, and
// keeps its pace.
func TestFindGoesOn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const n = 4000
	_, err := b.rdb.Pipelined(b.ctx, func(p redis.Pipeliner) error {
		for i := range n {
			p.LPush(b.ctx, rediskey.For(fmt.Sprint("s", i)).Pending(), "x")
		}
		return nil
	})
	expect.OK(t, err)
	ctx, cut := context.WithCancel(b.ctx)
	faults := &redistest.Faults{}
	b.rdb.AddHook(faults)
	scanned := faults.GateReply(redistest.Named("scan"))
	got := make(chan int, 1)
	go func() {
		n, err := b.c.Find(ctx)
		if err != nil {
			t.Error(err)
		}
		got <- n
	}()
	<-scanned.Arrived()
	scanned.Release()
	expect.Soon(t, "the first entries", func() bool { return b.rdb.ZCard(b.ctx, rediskey.Sessions).Val() > 0 })
	cut()
	first := <-got
	if first == 0 || first == n {
		t.Fatalf("%d sessions before it was cut short", first)
	}
	faults.Clear()
	began := time.Now()
	rest, err := newWorker(t, b.rdb, "two").Find(b.ctx)
	expect.OK(t, err)
	if first+rest != n {
		t.Errorf("entered %d, then %d of %d", first, rest, n)
	}
	if took := time.Since(began); took < time.Duration(rest/1000-1)*50*time.Millisecond {
		t.Errorf("%d keys took %s", rest, took)
	}
}
