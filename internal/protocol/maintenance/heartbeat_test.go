package maintenance_test

import (
	"cmp"
	"context"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"turnstile"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/agents"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/wire"
	"turnstile/pkg/admin"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

var unable = map[string]string{agents.Default: "cannot start agent default: too many open files"}

// workerServer starts a worker's asynq.Server. Its heartbeat lists these claims, of which one waits without a slot.
func workerServer(b *actors.Bench, h asynq.HandlerFunc, claims ...*protocol.Claim) *asynq.Server {
	b.Helper()
	s := asynq.NewServerFromRedisClient(b.Worker.ServerRedis(10, time.Hour, func() ([]*protocol.Claim, int) { return claims, max(len(claims)-1, 0) }, func() map[string]string { return unable }), asynq.Config{
		Queues: map[string]int{"jobs": 1}, Concurrency: 2, LogLevel: asynq.FatalLevel, TaskCheckInterval: 5 * time.Millisecond,
	})
	expect.OK(b, s.Start(h))
	b.Cleanup(s.Shutdown)
	return s
}

// servers returns the rows of asynqmon's Servers page. It waits for the first heartbeat.
func servers(b *actors.Bench) (all []*asynq.ServerInfo) {
	b.Helper()
	expect.Soon(b, "the heartbeat", func() bool {
		var err error
		all, err = b.Inspector().Servers()
		expect.OK(b, err)
		return len(all) > 0
	})
	return all
}

// asynq's own Inspector reads the worker's slots and turns from asynq's own heartbeat.
func TestContract_Heartbeat(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	secret := strings.Repeat("secret ", 1000)
	_, err := b.Client.Session(actors.Key).Send(b.Ctx, turnstile.Message{ID: "a", Text: secret})
	expect.OK(t, err)
	_, err = b.Client.Session("other").Send(b.Ctx, turnstile.Message{ID: "b", Text: "b"})
	expect.OK(t, err)
	claims, err := b.Worker.Claim(b.Ctx, []string{actors.Key, "other"})
	expect.OK(t, err)
	server := workerServer(b, func(context.Context, *asynq.Task) error { return nil }, claims...)

	all := servers(b)
	expect.Equal(t, "servers", len(all), 1)
	s := all[0]
	expect.Equal(t, "concurrency", s.Concurrency, 10)
	expect.Equal(t, "status", s.Status, "active")
	expect.Equal(t, "queues", len(s.Queues), 0)
	actors.Recent(t, "started", s.Started)
	if s.Host == "" || s.PID == 0 || s.ID == "" {
		t.Errorf("it is not named: %+v", s)
	}
	slices.SortFunc(s.ActiveWorkers, func(a, b *asynq.WorkerInfo) int { return cmp.Compare(a.Queue, b.Queue) })
	expect.Equal(t, "turns", len(s.ActiveWorkers), 2)
	w, turn := s.ActiveWorkers[0], claims[0].Turn()
	expect.Equal(t, "task id", w.TaskID, b.Task("a"))
	expect.Equal(t, "task type", w.TaskType, wire.TaskType)
	expect.Equal(t, "payload", string(w.TaskPayload), `{"turn":"`+turn.ID+`"}`)
	expect.Equal(t, "queue", w.Queue, actors.Queue)
	expect.Equal(t, "started", w.Started.UnixMilli(), turn.StartedAt.UnixMilli())
	expect.Equal(t, "deadline", w.Deadline.Sub(w.Started), time.Hour)
	expect.Equal(t, "the other's task id", s.ActiveWorkers[1].TaskID, rediskey.TaskID("other", "b"))

	for _, name := range b.Redis.Keys(b.Ctx, "asynq:*rs:{*").Val() {
		if ttl := b.Redis.TTL(b.Ctx, name).Val(); ttl <= 0 || ttl > 10*time.Second {
			t.Errorf("a killed worker's %s is left for %s", name, ttl)
		}
		if rediskey.IsServer(name) && b.Redis.StrLen(b.Ctx, name).Val() > 200 {
			t.Errorf("%s is %q", name, b.Redis.Get(b.Ctx, name).Val())
		}
	}
	// Heartbeats has the worker's name, and not another program's asynq.Server.
	other := asynq.NewServerFromRedisClient(b.Redis, asynq.Config{Queues: map[string]int{"jobs": 1}, LogLevel: asynq.FatalLevel})
	expect.OK(t, other.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error { return nil })))
	defer other.Shutdown()
	expect.Soon(t, "the other server's heartbeat", func() bool { return len(servers(b)) == 2 })
	operator := admin.NewClient(b.Redis, admin.Config{})
	workers, err := operator.Workers(b.Ctx)
	expect.OK(t, err)
	expect.Equal(t, "workers", len(workers), 1)
	want := admin.Worker{Name: t.Name() + "/one", Host: s.Host, PID: s.PID, Slots: 10, Turns: 1, Started: workers[0].Started, Agents: []string{agents.Default}, Unable: slices.Sorted(maps.Values(unable))}
	if !reflect.DeepEqual(workers[0], want) {
		t.Errorf("worker %+v, want %+v", workers[0], want)
	}
	expect.Equal(t, "started", workers[0].Started.UTC(), s.Started.UTC())
	has, err := b.Client.HasWorker(b.Ctx)
	expect.OK(t, err)
	expect.Equal(t, "a worker runs", has, true)
	other.Shutdown()

	server.Shutdown()
	all, err = b.Inspector().Servers()
	expect.OK(t, err)
	expect.Equal(t, "servers after the end", len(all), 0)
	workers, err = operator.Workers(b.Ctx)
	expect.OK(t, err)
	expect.Equal(t, "workers after the end", len(workers), 0)
	expect.Equal(t, "keys after the end", len(b.Redis.Keys(b.Ctx, "asynq:*rs:{*").Val()), 0)
}

// A worker of thousands of turns writes the first thousand. It leaves out ids that are too long,
// which another program's task may have.
func TestContract_HeartbeatIsBounded(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.EnqueueTask(wire.TaskType, `{"v":1,"text":"x"}`, strings.Repeat("x", 100_000))
	long := b.Claim()
	_, err := b.Client.Session("other").Send(b.Ctx, turnstile.Message{ID: "b", Text: "b"})
	expect.OK(t, err)
	claims, err := b.Worker.Claim(b.Ctx, []string{"other"})
	expect.OK(t, err)
	running := append([]*protocol.Claim{long}, slices.Repeat(claims, 5000)...)
	script := &longest{name: "evalsha"}
	b.Redis.AddHook(script)
	workerServer(b, func(context.Context, *asynq.Task) error { return nil }, running...)
	s := servers(b)[0]
	if n, most := script.read(), 2*1010; n > most || n < 1000 {
		t.Errorf("a heartbeat of %d arguments, want about %d", n, most)
	}
	expect.Equal(t, "turns", len(s.ActiveWorkers), 1) // all of one session
	expect.Equal(t, "task id", s.ActiveWorkers[0].TaskID, rediskey.TaskID("other", "b"))
}

// Tasks that the server itself runs are not affected, and not on the page.
func TestContract_HeartbeatServerStillWorks(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	ran := make(chan string, 1)
	workerServer(b, func(_ context.Context, task *asynq.Task) error {
		ran <- task.Type()
		return nil
	})
	_, err := asynq.NewClientFromRedisClient(b.Redis).Enqueue(asynq.NewTask("job", nil), asynq.Queue("jobs"))
	expect.OK(t, err)
	expect.Equal(t, "runs", <-ran, "job")
	expect.Equal(t, "turns", len(servers(b)[0].ActiveWorkers), 0)
}

// longest is the largest number of arguments that commands of one name had.
type longest struct {
	name string
	mu   sync.Mutex
	args int
}

func (l *longest) read() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.args
}

func (l *longest) DialHook(next redis.DialHook) redis.DialHook { return next }

func (l *longest) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == l.name {
			l.mu.Lock()
			l.args = max(l.args, len(cmd.Args()))
			l.mu.Unlock()
		}
		return next(ctx, cmd)
	}
}

func (l *longest) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// asynq lists a heartbeat by the worker's clock. A worker with a slow clock is found all the same. One
// with a fast clock is gone once its key has expired.
func TestHeartbeatOfAnotherClock(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	workerServer(b, func(context.Context, *asynq.Task) error { return nil })
	servers(b)
	operator := admin.NewClient(b.Redis)
	count := func() int {
		workers, err := operator.Workers(b.Ctx)
		expect.OK(t, err)
		return len(workers)
	}
	now, err := b.Redis.Time(b.Ctx).Result()
	expect.OK(t, err)
	name := b.Redis.ZRange(b.Ctx, rediskey.Servers, 0, 0).Val()[0]
	info := b.Redis.Get(b.Ctx, name).Val()
	for _, behind := range []time.Duration{11 * time.Second, 10 * time.Minute} {
		expect.OK(t, b.Redis.ZAdd(b.Ctx, rediskey.Servers, redis.Z{Score: float64(now.Add(-behind).Unix()), Member: name + "2"}).Err())
		expect.OK(t, b.Redis.Set(b.Ctx, name+"2", info, time.Minute).Err())
		expect.Equal(t, "workers, one of them "+behind.String()+" behind", count(), 2)
	}
	expect.OK(t, b.Redis.ZAdd(b.Ctx, rediskey.Servers, redis.Z{Score: float64(now.Add(time.Hour).Unix()), Member: name + "3"}).Err())
	expect.Equal(t, "workers, one of them killed", count(), 2)
}

// asynq.Server repeats a refused script at once, so a full Redis would get thousands a second.
func TestServerPausesAfterARefusal(t *testing.T) {
	t.Parallel()
	server := redistest.StartServer(t)
	b := actors.BenchOn(t, server.Client())
	expect.OK(t, server.Client().ConfigSet(b.Ctx, "maxmemory", "1").Err())
	rdb := b.Worker.ServerRedis(1, time.Hour, func() ([]*protocol.Claim, int) { return nil, 0 }, func() map[string]string { return nil })
	write := redis.NewScript("return redis.call('SET', KEYS[1], '')")
	expect.OK(t, write.Load(b.Ctx, server.Client()).Err())
	began := time.Now()
	err := rdb.EvalSha(b.Ctx, write.Hash(), []string{"k"}).Err()
	if took := time.Since(began); !redis.HasErrorPrefix(err, "OOM") || took < time.Second/2 {
		t.Errorf("EvalSha returned %v after %s", err, took)
	}
}
