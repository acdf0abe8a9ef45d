package recovery_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/wire"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// A plain asynq.Client lists a queue once in its life. Find finds the messages that it enqueues
// after the queue was unlisted, and sessions that have nothing but a delayed message, a retry or a
// result.
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
			b := actors.BenchOn(t, open(t))
			plain := asynq.NewClientFromRedisClient(b.Redis)
			put := func(id string, opts ...asynq.Option) {
				t.Helper()
				payload, err := wire.Message{ID: id, Text: id}.Payload()
				expect.OK(t, err)
				_, err = plain.Enqueue(asynq.NewTask(wire.TaskType, payload),
					append(opts, asynq.Queue(rediskey.Queue(actors.Key)), asynq.TaskID(b.Task(id)))...)
				expect.OK(t, err)
			}
			put("a")
			expect.Equal(t, "a: woken", b.Sweep(), 1)
			expect.List(t, "runs", b.Drain(), "a")
			b.LoseIndexes()
			put("b")
			expect.Equal(t, "b: the sweep alone", b.Sweep(), 0)
			expect.Equal(t, "b: entered", b.Find(), 1)
			expect.Equal(t, "b: woken", b.Sweep(), 1)
			expect.List(t, "runs", b.Drain(), "b")
			b.LoseIndexes()
			put("c", asynq.ProcessIn(time.Hour))
			expect.Equal(t, "c: entered", b.Find(), 1)
			b.Sweep()
			expect.Equal(t, "c: due", b.IsIn(rediskey.Due, actors.Key), true)
			expect.Equal(t, "entered again", b.Find(), 0)
			expect.OK(t, b.Inspector().DeleteTask(rediskey.Queue(actors.Key), b.Task("c")))

			b.LoseIndexes()
			expect.Equal(t, "results: entered", b.Find(), 1)
			expect.Equal(t, "known", b.IsIn(rediskey.Sessions, actors.Key), true)
			expect.Equal(t, "results alone are listed", b.Listed(actors.Key), false)
		})
	}
}

// A record without messages, and asynq's counters of a forgotten session, go with the next Forget.
func TestFindWhatWasLeft(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t, func(c *protocol.Config) { c.SessionTTL = time.Hour })
	expect.OK(t, b.Client.Session(actors.Key).SetQueue(b.Ctx, session.QueueSettings{Cap: 3}))
	b.MakeOld()
	b.LoseIndexes()
	expect.OK(t, b.Redis.Set(b.Ctx, rediskey.For("gone").Processed(), 7, 0).Err())
	expect.Equal(t, "entered", b.Find(), 2)
	expect.Equal(t, "listed", b.Redis.SCard(b.Ctx, rediskey.AllQueues).Val(), 0)
	n, err := b.Worker.Forget(b.Ctx)
	expect.OK(t, err)
	expect.Equal(t, "forgotten", n, 2)
	b.Redis.Del(b.Ctx, rediskey.Scan)
	if left := b.Redis.Keys(b.Ctx, "*").Val(); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// An interrupted search continues where it ended, also by another worker, and keeps its pace.
func TestFindContinues(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	const n = 4000
	_, err := b.Redis.Pipelined(b.Ctx, func(p redis.Pipeliner) error {
		for i := range n {
			p.LPush(b.Ctx, rediskey.For(fmt.Sprint("s", i)).Pending(), "x")
		}
		return nil
	})
	expect.OK(t, err)
	ctx, cut := context.WithCancel(b.Ctx)
	faults := &redistest.Faults{}
	b.Redis.AddHook(faults)
	scanned := faults.GateReply(redistest.Named("scan"))
	got := make(chan int, 1)
	go func() {
		n, err := b.Worker.Find(ctx)
		if err != nil {
			t.Error(err)
		}
		got <- n
	}()
	<-scanned.Arrived()
	scanned.Release()
	expect.Soon(t, "the first entries", func() bool { return b.Redis.ZCard(b.Ctx, rediskey.Sessions).Val() > 0 })
	cut()
	first := <-got
	if first == 0 || first == n {
		t.Fatalf("%d sessions before it was cut short", first)
	}
	faults.Clear()
	began := time.Now()
	rest, err := actors.NewWorker(t, b.Redis, "two").Find(b.Ctx)
	expect.OK(t, err)
	// The interruption may fall between a batch of about 1,000 and the writing of the cursor. Then the
	// batch is entered again.
	if sum := first + rest; sum < n || sum > n+1500 {
		t.Errorf("entered %d, then %d of %d", first, rest, n)
	}
	expect.Equal(t, "sessions", b.Redis.ZCard(b.Ctx, rediskey.Sessions).Val(), n)
	if took := time.Since(began); took < time.Duration(rest/1000-1)*50*time.Millisecond {
		t.Errorf("%d keys took %s", rest, took)
	}
}
