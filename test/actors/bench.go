package actors

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/acl"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// Key is the session of most tests.
const Key = "agent:main:telegram:dm:42"

// Bench is a sender, a worker and the database that they share.
type Bench struct {
	*testing.T
	Ctx    context.Context
	Redis  redis.UniversalClient
	Client *Client
	Worker *Consumer
	Keys   rediskey.Session
}

// Setup changes the configuration of a bench's worker.
type Setup func(*protocol.Config)

// NewBench makes a bench on an unused database. Under acl.Suite the sender and the worker
// are the users of docs/security.md.
func NewBench(t *testing.T, changes ...Setup) *Bench {
	t.Helper()
	b := BenchOn(t, redistest.New(t), changes...)
	b.Client = NewClient(acl.Client(t, acl.Sender))
	b.Worker = NewWorker(t, acl.Client(t, acl.Worker), "one", changes...)
	return b
}

// BenchOn makes a bench on a given Redis.
func BenchOn(t *testing.T, rdb redis.UniversalClient, changes ...Setup) *Bench {
	t.Helper()
	return &Bench{
		T: t, Ctx: t.Context(), Redis: rdb, Client: NewClient(rdb),
		Worker: NewWorker(t, rdb, "one", changes...), Keys: rediskey.For(Key),
	}
}

// NewBenchWithCap makes a bench with this cap of the queue, for the sender and the worker.
func NewBenchWithCap(t *testing.T, n int, changes ...Setup) *Bench {
	t.Helper()
	b := NewBench(t, append(changes, func(c *protocol.Config) { c.Limits.Queue, c.TurnMessages = n, 1 })...)
	b.Client = NewClientWith(b.Redis, turnstile.ClientConfig{Limits: session.Limits{Queue: n}})
	return b
}

// NewWorker makes a consumer. Its name has the test's name, because all databases of a server share
// the channels.
func NewWorker(t *testing.T, rdb redis.UniversalClient, name string, changes ...Setup) *Consumer {
	t.Helper()
	cfg := protocol.Config{Worker: t.Name() + "/" + name, Retention: time.Hour, SentinelTTL: time.Hour}
	for _, change := range changes {
		change(&cfg)
	}
	c, err := NewConsumer(rdb, cfg)
	expect.OK(t, err)
	return c
}

// Line sets the worker's defaults for the queue.
func Line(s session.QueueSettings) Setup { return func(c *protocol.Config) { c.Line = s } }

// EventsBytes limits the bytes of a stream.
func EventsBytes(n int) Setup { return func(c *protocol.Config) { c.EventsBytes = n } }

// OnceAndTwice plays a story once unchanged, and once with every script and index command sent
// twice, as after a lost reply.
func OnceAndTwice(t *testing.T, story func(t *testing.T, b *Bench), changes ...Setup) {
	t.Helper()
	t.Run("once", func(t *testing.T) {
		t.Parallel()
		story(t, NewBench(t, changes...))
	})
	t.Run("each command twice", func(t *testing.T) {
		t.Parallel()
		b := NewBench(t, changes...)
		faults := &redistest.Faults{}
		faults.RunTwice(redistest.Named("evalsha", "eval", "zadd", "sadd"), -1)
		b.Redis.AddHook(faults)
		story(t, b)
	})
}

// Chat returns the session of most tests.
func (b *Bench) Chat() *turnstile.Session { return b.Client.Session(Key) }

// BareRedis is a client of the same database without hooks.
func (b *Bench) BareRedis() *redis.Client {
	b.Helper()
	rdb := redis.NewClient(b.Redis.(*redis.Client).Options())
	b.Cleanup(func() { rdb.Close() })
	return rdb
}

// RedisTime returns the time of Redis' clock.
func (b *Bench) RedisTime() time.Time {
	b.Helper()
	at, err := b.Redis.Time(b.Ctx).Result()
	expect.OK(b, err)
	return at
}

// Pass waits until Redis' clock has advanced.
func (b *Bench) Pass(d time.Duration) {
	b.Helper()
	end := b.RedisTime().Add(d)
	expect.Soon(b, "Redis' clock", func() bool { return b.RedisTime().After(end) })
}
