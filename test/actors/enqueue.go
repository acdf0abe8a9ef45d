package actors

import (
	"fmt"
	"strings"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/wire"
	"turnstile/pkg/session"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// Queue is the session's queue of asynq.
const Queue = "session:" + Key

// StockServer starts a stock asynq.Server on the session's queue.
func (b *Bench) StockServer(h asynq.HandlerFunc) (stop func()) {
	b.Helper()
	options, err := redis.ParseURL(redistest.URL(b.T))
	expect.OK(b, err)
	own := redis.NewClient(options)
	s := asynq.NewServerFromRedisClient(own, asynq.Config{
		Queues: map[string]int{Queue: 1}, Concurrency: 1, LogLevel: asynq.FatalLevel, TaskCheckInterval: 5 * time.Millisecond,
		RetryDelayFunc:  func(int, error, *asynq.Task) time.Duration { return time.Hour },
		ShutdownTimeout: time.Second,
	})
	expect.OK(b, s.Start(h))
	return func() {
		s.Shutdown()
		own.Close()
	}
}

// Flood enqueues many messages at once, as plain asynq.Clients do.
func (b *Bench) Flood(n int) {
	b.Helper()
	_, err := b.Redis.Pipelined(b.Ctx, func(p redis.Pipeliner) error {
		for i := range n {
			id := b.Task(fmt.Sprint("f", i))
			p.HSet(b.Ctx, b.Keys.Task(id), "msg", "", "state", "pending", "pending_since", "1")
			p.LPush(b.Ctx, b.Keys.Pending(), id)
		}
		p.SAdd(b.Ctx, rediskey.AllQueues, rediskey.Queue(Key))
		return nil
	})
	expect.OK(b, err)
}

// OverLimits are messages that exceed one limit each, by a part of the error.
func OverLimits() map[string]wire.Message {
	many := make([]session.Attachment, 101)
	for i := range many {
		many[i] = session.Attachment{Name: "a", URL: "https://example.com/a"}
	}
	long := strings.Repeat("x", 2<<20)
	return map[string]wire.Message{
		"JSON":            {Text: long + "x"},
		"in JSON":         {Text: "a", Meta: map[string]string{"k": long}},
		"101 attachments": {Text: "a", Attachments: many},
		"bytes in JSON":   {Text: "a", Attachments: []session.Attachment{{Name: long, URL: "https://example.com/a"}}},
	}
}

// Enqueue enqueues a message as a plain asynq.Client does.
func (b *Bench) Enqueue(id string, opts ...asynq.Option) {
	b.Helper()
	client := asynq.NewClientFromRedisClient(b.Redis)
	task := asynq.NewTaskWithHeaders(wire.TaskType, []byte(fmt.Sprintf(`{"v":1,"text":%q}`, id)), map[string]string{"turnstile-nonce": "nonce-" + id})
	opts = append([]asynq.Option{asynq.Queue(rediskey.Queue(Key)), asynq.TaskID(b.Task(id))}, opts...)
	_, err := client.EnqueueContext(b.Ctx, task, opts...)
	expect.OK(b, err)
}

// EnqueueTask enqueues any task into the session's queue.
func (b *Bench) EnqueueTask(kind, payload, id string, opts ...asynq.Option) {
	b.Helper()
	opts = append([]asynq.Option{asynq.Queue(rediskey.Queue(Key)), asynq.TaskID(id)}, opts...)
	_, err := asynq.NewClientFromRedisClient(b.Redis).EnqueueContext(b.Ctx, asynq.NewTask(kind, []byte(payload)), opts...)
	expect.OK(b, err)
}

// Backdate makes a delayed message due.
func (b *Bench) Backdate(id string) {
	b.Redis.ZAddXX(b.Ctx, b.Keys.Scheduled(), redis.Z{Score: float64(time.Now().Unix() - 60), Member: b.Task(id)})
}

// SayDelayed sends a delayed message that is due.
func (b *Bench) SayDelayed(id string) {
	b.Helper()
	_, err := b.Client.Session(Key).Send(b.Ctx, turnstile.Message{ID: id, Text: id, Delay: time.Hour})
	expect.OK(b, err)
	b.Backdate(id)
}

// SayCollected sends messages that are collected into one turn, their window over.
func (b *Bench) SayCollected(ids ...string) {
	b.Helper()
	for _, id := range ids {
		b.Say(id, session.ModeCollect)
		b.Redis.HSet(b.Ctx, b.Keys.Task(b.Task(id)), "quiet", "1 100")
	}
}

// SayMany puts n new messages into the queue, without a sender.
func (b *Bench) SayMany(name string, n int) {
	b.Helper()
	seq := b.Redis.HIncrBy(b.Ctx, b.Keys.Record(), "seq", 1).Val()
	p := b.Redis.Pipeline()
	for i := range n {
		id := b.Task(fmt.Sprintf("%s%04d", name, i))
		p.LPush(b.Ctx, b.Keys.Pending(), id)
		p.HSet(b.Ctx, b.Keys.Task(id), "msg", "m", "state", "pending", "seq", seq)
	}
	_, err := p.Exec(b.Ctx)
	expect.OK(b, err)
}
