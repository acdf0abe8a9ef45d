package protocol_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/internal/chat/receipt"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/wire"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// The keys of asynq that the scripts rely on, made by asynq itself.
func TestContract_Layout(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	kind := func(name, want string) {
		t.Helper()
		expect.Equal(t, "type of "+name, b.Redis.Type(b.Ctx, name).Val(), want)
	}
	expect.Equal(t, "queue's name", rediskey.Queue(actors.Key), actors.Queue)

	b.EnqueueTask("x", "1", "one", asynq.Unique(time.Hour), asynq.Retention(time.Hour))
	b.EnqueueTask("x", "2", "two")
	kind(rediskey.AllQueues, "set")
	expect.List(t, "queues", b.Redis.SMembers(b.Ctx, rediskey.AllQueues).Val(), actors.Queue)
	kind(b.Keys.Pending(), "list")
	expect.List(t, "pending, the oldest at the right", b.Redis.LRange(b.Ctx, b.Keys.Pending(), 0, -1).Val(), "two", "one")
	kind(b.Keys.Task("one"), "hash")
	f := b.Redis.HGetAll(b.Ctx, b.Keys.Task("one")).Val()
	expect.Equal(t, "state", f["state"], "pending")
	if f["msg"] == "" || len(f["pending_since"]) != 19 || len(f) != 4 {
		t.Errorf("task: %q", f)
	}
	expect.Equal(t, "unique lock", b.Redis.Get(b.Ctx, f["unique_key"]).Val(), "one")
	if !strings.HasPrefix(f["unique_key"], "asynq:{"+actors.Queue+"}:unique:") {
		t.Errorf("the unique lock %s has another hash tag", f["unique_key"])
	}

	b.EnqueueTask("x", "3", "later", asynq.ProcessIn(90*time.Second))
	kind(b.Keys.Scheduled(), "zset")
	in := b.Redis.ZScore(b.Ctx, b.Keys.Scheduled(), "later").Val() - float64(time.Now().Unix())
	if in < 85 || in > 95 {
		t.Errorf("scheduled in %v seconds", in)
	}
	expect.Equal(t, "state", b.Redis.HGet(b.Ctx, b.Keys.Task("later"), "state").Val(), "scheduled")

	inspector := b.Inspector()
	expect.OK(t, inspector.PauseQueue(actors.Queue))
	kind(b.Keys.Paused(), "string")
	expect.OK(t, inspector.UnpauseQueue(actors.Queue))

	b.EnqueueTask("fail", "", "fails")
	b.EnqueueTask("skip", "", "dies")
	working := make(chan struct{})
	goOn := make(chan struct{})
	stop := b.StockServer(func(ctx context.Context, task *asynq.Task) error {
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
	kind(b.Keys.Active(), "list")
	expect.List(t, "the oldest is taken first", b.Redis.LRange(b.Ctx, b.Keys.Active(), 0, -1).Val(), "one")
	kind(b.Keys.Lease(), "zset")
	lease := b.Redis.ZScore(b.Ctx, b.Keys.Lease(), "one").Val() - float64(time.Now().Unix())
	if lease < 20 || lease > 40 {
		t.Errorf("lease of %v seconds", lease)
	}
	expect.Equal(t, "state", b.Redis.HGet(b.Ctx, b.Keys.Task("one"), "state").Val(), "active")
	// By this field a claim recognizes a stock server's task.
	expect.Equal(t, "pending_since of a task that a server runs", b.Redis.HExists(b.Ctx, b.Keys.Task("one"), "pending_since").Val(), false)
	close(goOn)
	expect.Soon(t, "the queue to be drained", func() bool { return b.Redis.Exists(b.Ctx, b.Keys.Pending(), b.Keys.Active()).Val() == 0 })
	stop()

	kind(b.Keys.Completed(), "zset")
	f = b.Redis.HGetAll(b.Ctx, b.Keys.Task("one")).Val()
	expect.Equal(t, "state and result", f["state"]+" "+f["result"], "completed result")
	expect.Equal(t, "unique lock after the end", b.Redis.Exists(b.Ctx, f["unique_key"]).Val(), 0)
	expect.Equal(t, "a task without retention", b.Redis.Exists(b.Ctx, b.Keys.Task("two")).Val(), 0)
	kind(b.Keys.Retry(), "zset")
	expect.Equal(t, "state", b.Redis.HGet(b.Ctx, b.Keys.Task("fails"), "state").Val(), "retry")
	kind(b.Keys.Archived(), "zset")
	expect.Equal(t, "state", b.Redis.HGet(b.Ctx, b.Keys.Task("dies"), "state").Val(), "archived")
	day := time.Now().UTC().Format(":2006-01-02")
	expect.Equal(t, "processed", b.Redis.Get(b.Ctx, b.Keys.Processed()).Val()+b.Redis.Get(b.Ctx, b.Keys.Processed()+day).Val(), "44")
	expect.Equal(t, "failed", b.Redis.Get(b.Ctx, b.Keys.Failed()).Val()+b.Redis.Get(b.Ctx, b.Keys.Failed()+day).Val(), "22")
	if ttl := b.Redis.TTL(b.Ctx, b.Keys.Processed()+day).Val(); ttl < 89*24*time.Hour || ttl > 91*24*time.Hour {
		t.Errorf("a day's counter lives %s", ttl)
	}

	sub := b.Redis.Subscribe(b.Ctx, rediskey.AsynqCancel)
	defer sub.Close()
	_, err := sub.Receive(b.Ctx)
	expect.OK(t, err)
	expect.OK(t, inspector.CancelProcessing("some-"+t.Name()))
	for m := range sub.Channel() {
		if m.Payload == "some-"+t.Name() {
			break
		}
	}
}

// The consumer takes the tasks that asynq.Client enqueues.
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
			b := actors.NewBench(t)
			b.EnqueueTask(wire.TaskType, payload, id, opts...)
			b.EnqueueTask(wire.TaskType, `{"v":1,"text":"second"}`, "second")
			lock := b.Redis.HGet(b.Ctx, b.Keys.Task(id), "unique_key").Val()
			got := endOf(b, id)
			h := b.Start()
			expect.OK(t, h.Turn().Err)
			expect.Equal(t, "text", h.Turn().Message.Text, "hi")
			expect.Equal(t, "id", h.Turn().Message.ID, id)
			expect.Equal(t, "has a next turn", b.Finish(h), true)
			info, err := b.Inspector().GetTaskInfo(actors.Queue, id)
			expect.OK(t, err)
			expect.Equal(t, "state", info.State, asynq.TaskStateCompleted)
			expect.Equal(t, "retention", info.Retention, time.Hour)
			if lock != "" {
				expect.Equal(t, "unique locks", b.Redis.Exists(b.Ctx, lock).Val(), 0)
			}
			expect.Equal(t, "ends", <-got, "done")
			b.Finish(h)
			if _, err := b.Inspector().ListCompletedTasks(actors.Queue); err != nil {
				t.Error(err)
			}
		})
	}
}

// endOf waits for the end of another program's task in the stream: its ID has no prefix.
func endOf(b *actors.Bench, id string) <-chan string {
	got := make(chan string, 1)
	go func() {
		from := "0"
		for {
			streams, err := b.Redis.XRead(b.Ctx, &redis.XReadArgs{Streams: []string{b.Keys.Events(), from}, Block: time.Second}).Result()
			if err != nil {
				if b.Ctx.Err() != nil {
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
	b := actors.NewBench(t)
	b.EnqueueTask(wire.TaskType, `{"v":1,"text":"soon"}`, "soon", asynq.ProcessIn(expect.Lease(3*time.Second)))
	b.ClaimNothing("it is delayed")
	info, err := b.Inspector().GetTaskInfo(actors.Queue, "soon")
	expect.OK(t, err)
	expect.Equal(t, "state", info.State, asynq.TaskStateScheduled)
	expect.Soon(t, "its time", func() bool {
		b.Due()
		return b.IsIn(rediskey.Ready, actors.Key)
	})
	expect.List(t, "runs", b.Drain(), "soon")

	client := asynq.NewClientFromRedisClient(b.Redis)
	task := asynq.NewTaskWithHeaders(wire.TaskType, []byte(`{"v":1,"text":"h"}`), map[string]string{"a": "b", "turnstile-nonce": "x"})
	_, err = client.Enqueue(task, asynq.Queue(actors.Queue), asynq.TaskID("h"))
	expect.OK(t, err)
	expect.List(t, "runs", b.Drain(), "h")
	info, err = b.Inspector().GetTaskInfo(actors.Queue, "h")
	expect.OK(t, err)
	expect.Equal(t, "header", info.Headers["a"], "b")
}

func unmarshal(v any, into any) error {
	text, _ := v.(string)
	return json.Unmarshal([]byte(text), into)
}

// A message that the script accept stores is the task that asynq.Client stores, in each of its
// fields, and asynq's Inspector reads the same of both.
func TestContract_AcceptStoresWhatAsynqStores(t *testing.T) {
	t.Parallel()
	for name, delay := range map[string]time.Duration{"pending": 0, "scheduled": time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			m := turnstile.Message{ID: "a", Text: "<ü> \u2028", Meta: map[string]string{"k": "v"}, ExpiresIn: time.Minute}
			var opts []actors.Option
			if delay > 0 {
				opts = append(opts, actors.Delay(delay))
			}
			_, err := receipt.Input(b.Ctx, b.Client.Session(actors.Key), actors.With(m, opts...))
			expect.OK(t, err)
			got := storedTask(b, "a")
			expect.OK(t, b.Client.Operate(actors.Key).Erase(b.Ctx))

			payload, err := wire.Message{Text: m.Text, Meta: m.Meta, ExpiresIn: wire.Duration(m.ExpiresIn)}.Payload()
			expect.OK(t, err)
			nonce := regexp.MustCompile("turnstile-nonce..([A-Z2-7]{26})").FindStringSubmatch(got.fields["msg"])
			if len(nonce) != 2 {
				t.Fatalf("no nonce in %q", got.fields["msg"])
			}
			task := asynq.NewTaskWithHeaders(wire.TaskType, payload, map[string]string{"turnstile-nonce": nonce[1]})
			_, err = asynq.NewClientFromRedisClient(b.Redis).EnqueueContext(b.Ctx, task,
				asynq.Queue(actors.Queue), asynq.TaskID(b.Task("a")), asynq.MaxRetry(2), asynq.ProcessIn(delay))
			expect.OK(t, err)
			want := storedTask(b, "a")

			for _, own := range []string{"seen", "seq"} {
				if got.fields[own] == "" {
					t.Errorf("no %s", own)
				}
				delete(got.fields, own)
			}
			expect.List(t, "fields", slices.Sorted(maps.Keys(got.fields)), slices.Sorted(maps.Keys(want.fields))...)
			expect.Equal(t, "msg", got.fields["msg"], want.fields["msg"])
			expect.Equal(t, "state", got.fields["state"], want.fields["state"])
			expect.Equal(t, "digits of pending_since", len(got.fields["pending_since"]), len(want.fields["pending_since"]))
			expect.List(t, "line", got.line, want.line...)
			expect.List(t, "asynq's keys", got.keys, want.keys...)
			if later := want.due - got.due; later < 0 || later > 5 {
				t.Errorf("asynq's is due %v s later", later)
			}
			expect.Equal(t, "as the Inspector reads it", got.info, want.info)
		})
	}
}

// taskStored is a message's stored task.
type taskStored struct {
	fields     map[string]string
	line, keys []string
	due        float64 // s
	info       string  // as asynq's Inspector reads it
}

func storedTask(b *actors.Bench, id string) taskStored {
	b.Helper()
	info := inspect(b, id)
	info.NextProcessAt = time.Time{} // due has it
	s := taskStored{
		fields: b.Redis.HGetAll(b.Ctx, b.Keys.Task(b.Task(id))).Val(),
		line:   b.Waiting(), keys: b.Redis.Keys(b.Ctx, "asynq:*").Val(),
		due:  b.Redis.ZScore(b.Ctx, b.Keys.Scheduled(), b.Task(id)).Val(),
		info: fmt.Sprintf("%+v", info),
	}
	slices.Sort(s.keys)
	return s
}
