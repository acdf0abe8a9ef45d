package protocol_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"turnstile/internal/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

const queue = "session:" + key

// server starts a stock asynq.Server on the session's queue.
func (b *bench) server(h asynq.HandlerFunc) (stop func()) {
	b.Helper()
	options, err := redis.ParseURL(redistest.URL(b.T))
	expect.OK(b, err)
	own := redis.NewClient(options)
	s := asynq.NewServerFromRedisClient(own, asynq.Config{
		Queues: map[string]int{queue: 1}, Concurrency: 1, LogLevel: asynq.FatalLevel, TaskCheckInterval: 5 * time.Millisecond,
		RetryDelayFunc:  func(int, error, *asynq.Task) time.Duration { return time.Hour },
		ShutdownTimeout: time.Second,
	})
	expect.OK(b, s.Start(h))
	return func() {
		s.Shutdown()
		own.Close()
	}
}

// The keys of asynq that the scripts rely on, made by asynq itself.
func TestContract_Layout(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	kind := func(name, want string) {
		t.Helper()
		expect.Equal(t, "type of "+name, b.rdb.Type(b.ctx, name).Val(), want)
	}
	expect.Equal(t, "queue's name", rediskey.Queue(key), queue)

	b.enqueueRaw("x", "1", "one", asynq.Unique(time.Hour), asynq.Retention(time.Hour))
	b.enqueueRaw("x", "2", "two")
	kind(rediskey.AllQueues, "set")
	expect.List(t, "queues", b.rdb.SMembers(b.ctx, rediskey.AllQueues).Val(), queue)
	kind(b.k.Pending(), "list")
	expect.List(t, "pending, the oldest at the right", b.rdb.LRange(b.ctx, b.k.Pending(), 0, -1).Val(), "two", "one")
	kind(b.k.Task("one"), "hash")
	f := b.rdb.HGetAll(b.ctx, b.k.Task("one")).Val()
	expect.Equal(t, "state", f["state"], "pending")
	if f["msg"] == "" || len(f["pending_since"]) != 19 || len(f) != 4 {
		t.Errorf("task: %q", f)
	}
	expect.Equal(t, "unique lock", b.rdb.Get(b.ctx, f["unique_key"]).Val(), "one")
	if !strings.HasPrefix(f["unique_key"], "asynq:{"+queue+"}:unique:") {
		t.Errorf("the unique lock %s has another hash tag", f["unique_key"])
	}

	b.enqueueRaw("x", "3", "later", asynq.ProcessIn(90*time.Second))
	kind(b.k.Scheduled(), "zset")
	in := b.rdb.ZScore(b.ctx, b.k.Scheduled(), "later").Val() - float64(time.Now().Unix())
	if in < 85 || in > 95 {
		t.Errorf("scheduled in %v seconds", in)
	}
	expect.Equal(t, "state", b.rdb.HGet(b.ctx, b.k.Task("later"), "state").Val(), "scheduled")

	inspector := b.inspector()
	expect.OK(t, inspector.PauseQueue(queue))
	kind(b.k.Paused(), "string")
	expect.OK(t, inspector.UnpauseQueue(queue))

	b.enqueueRaw("fail", "", "fails")
	b.enqueueRaw("skip", "", "dies")
	working := make(chan struct{})
	goOn := make(chan struct{})
	stop := b.server(func(ctx context.Context, task *asynq.Task) error {
		switch task.Type() {
		case "fail":
			return errors.New("why")
		case "skip":
			return fmt.Errorf("why: %w", asynq.SkipRetry)
		}
		if string(task.Payload()) == "1" {
			_, err := task.ResultWriter().Write([]byte("result"))
			close(working)
			<-goOn
			return err
		}
		return nil
	})
	<-working
	kind(b.k.Active(), "list")
	expect.List(t, "the oldest is taken first", b.rdb.LRange(b.ctx, b.k.Active(), 0, -1).Val(), "one")
	kind(b.k.Lease(), "zset")
	lease := b.rdb.ZScore(b.ctx, b.k.Lease(), "one").Val() - float64(time.Now().Unix())
	if lease < 20 || lease > 40 {
		t.Errorf("lease of %v seconds", lease)
	}
	expect.Equal(t, "state", b.rdb.HGet(b.ctx, b.k.Task("one"), "state").Val(), "active")
	// By this a claim knows a stock server's task from its own.
	expect.Equal(t, "pending_since of a task that a server runs", b.rdb.HExists(b.ctx, b.k.Task("one"), "pending_since").Val(), false)
	close(goOn)
	expect.Soon(t, "the queue to be drained", func() bool { return b.rdb.Exists(b.ctx, b.k.Pending(), b.k.Active()).Val() == 0 })
	stop()

	kind(b.k.Completed(), "zset")
	f = b.rdb.HGetAll(b.ctx, b.k.Task("one")).Val()
	expect.Equal(t, "state and result", f["state"]+" "+f["result"], "completed result")
	expect.Equal(t, "unique lock after the end", b.rdb.Exists(b.ctx, f["unique_key"]).Val(), 0)
	expect.Equal(t, "a task without retention", b.rdb.Exists(b.ctx, b.k.Task("two")).Val(), 0)
	kind(b.k.Retry(), "zset")
	expect.Equal(t, "state", b.rdb.HGet(b.ctx, b.k.Task("fails"), "state").Val(), "retry")
	kind(b.k.Archived(), "zset")
	expect.Equal(t, "state", b.rdb.HGet(b.ctx, b.k.Task("dies"), "state").Val(), "archived")
	day := time.Now().UTC().Format(":2006-01-02")
	expect.Equal(t, "processed", b.rdb.Get(b.ctx, b.k.Processed()).Val()+b.rdb.Get(b.ctx, b.k.Processed()+day).Val(), "44")
	expect.Equal(t, "failed", b.rdb.Get(b.ctx, b.k.Failed()).Val()+b.rdb.Get(b.ctx, b.k.Failed()+day).Val(), "22")
	if ttl := b.rdb.TTL(b.ctx, b.k.Processed()+day).Val(); ttl < 89*24*time.Hour || ttl > 91*24*time.Hour {
		t.Errorf("a day's counter lives %s", ttl)
	}

	sub := b.rdb.Subscribe(b.ctx, rediskey.AsynqCancel)
	defer sub.Close()
	_, err := sub.Receive(b.ctx)
	expect.OK(t, err)
	expect.OK(t, inspector.CancelProcessing("some-"+t.Name()))
	for m := range sub.Channel() {
		if m.Payload == "some-"+t.Name() {
			break
		}
	}
}

// What asynq.Client enqueues, the consumer takes.
func TestContract_WhatTheConsumerTakes(t *testing.T) {
	t.Parallel()
	payload := `{"v":1,"text":"hi","later":"field"}`
	cases := map[string][]asynq.Option{
		"plain":     nil,
		"unique":    {asynq.Unique(time.Hour)},
		"retention": {asynq.Retention(time.Minute)},
		"timeout":   {asynq.Timeout(time.Second), asynq.Deadline(time.Now().Add(time.Hour)), asynq.MaxRetry(7)},
		"a b":       nil, "x/y#z?%20": nil, `"quoted" \ id`: nil, "{brace}": nil, "ünïcödé 日本": nil, "new\nline": nil, "space at the end ": nil,
		strings.Repeat("long", 200): nil,
	}
	for id, opts := range cases {
		t.Run(fmt.Sprintf("%.20q", id), func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.enqueueRaw(session.TaskType, payload, id, opts...)
			b.enqueueRaw(session.TaskType, `{"v":1,"text":"second"}`, "second")
			lock := b.rdb.HGet(b.ctx, b.k.Task(id), "unique_key").Val()
			got := b.endOf(id)
			h := b.start()
			expect.OK(t, h.Turn().Err)
			expect.Equal(t, "text", h.Turn().Message.Text, "hi")
			expect.Equal(t, "id", h.Turn().Message.ID, id)
			expect.Equal(t, "goes on", b.finish(h), true)
			info, err := b.inspector().GetTaskInfo(queue, id)
			expect.OK(t, err)
			expect.Equal(t, "state", info.State, asynq.TaskStateCompleted)
			expect.Equal(t, "retention", info.Retention, time.Hour)
			if lock != "" {
				expect.Equal(t, "unique locks", b.rdb.Exists(b.ctx, lock).Val(), 0)
			}
			expect.Equal(t, "ends", <-got, "done")
			b.finish(h)
			if _, err := b.inspector().ListCompletedTasks(queue); err != nil {
				t.Error(err)
			}
		})
	}
}

// endOf hears of a foreign task's end in the stream: its id has no prefix.
func (b *bench) endOf(id string) <-chan string {
	got := make(chan string, 1)
	go func() {
		from := "0"
		for {
			streams, err := b.rdb.XRead(b.ctx, &redis.XReadArgs{Streams: []string{b.k.Events(), from}, Block: time.Second}).Result()
			if err != nil {
				if b.ctx.Err() != nil {
					return
				}
				continue
			}
			for _, m := range streams[0].Messages {
				from = m.ID
				var e struct {
					Type, Status string
					Messages     []string
				}
				if unmarshal(m.Values["e"], &e) == nil && e.Type == "turn_ended" && len(e.Messages) == 1 && e.Messages[0] == id {
					got <- e.Status
					return
				}
			}
		}
	}()
	return got
}

// A delayed task, and one with headers.
func TestContract_Delayed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.enqueueRaw(session.TaskType, `{"v":1,"text":"soon"}`, "soon", asynq.ProcessIn(time.Second))
	b.claimNothing("it is delayed")
	info, err := b.inspector().GetTaskInfo(queue, "soon")
	expect.OK(t, err)
	expect.Equal(t, "state", info.State, asynq.TaskStateScheduled)
	expect.Soon(t, "its time", func() bool {
		b.due()
		return b.isIn(rediskey.Ready, key)
	})
	expect.List(t, "runs", b.drain(), "soon")

	client := asynq.NewClientFromRedisClient(b.rdb)
	task := asynq.NewTaskWithHeaders(session.TaskType, []byte(`{"v":1,"text":"h"}`), map[string]string{"a": "b", "turnstile-nonce": "x"})
	_, err = client.Enqueue(task, asynq.Queue(queue), asynq.TaskID("h"))
	expect.OK(t, err)
	expect.List(t, "runs", b.drain(), "h")
	info, err = b.inspector().GetTaskInfo(queue, "h")
	expect.OK(t, err)
	expect.Equal(t, "header", info.Headers["a"], "b")
}
