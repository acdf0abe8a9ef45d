package worker_test

import (
	"context"
	"fmt"
	"log/slog"
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
	"turnstile/pkg/admin"
	"turnstile/pkg/agent"
	"turnstile/pkg/agent/echo"
	"turnstile/pkg/session"
	"turnstile/pkg/worker"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// A message of a plain asynq.Client that exceeds a limit does not run: it is a dead letter with
// the reason, which Wait returns, and the next message runs.
func TestMessagesOverALimitAreArchived(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	client := asynq.NewClientFromRedisClient(r.rdb)
	put := func(id string, m wire.Message) {
		payload, err := m.Payload()
		expect.OK(t, err)
		_, err = client.Enqueue(asynq.NewTask(wire.TaskType, payload), asynq.Queue(rediskey.Queue(r.key)), asynq.TaskID(rediskey.TaskID(r.key, id)))
		expect.OK(t, err)
	}
	reasons := map[string]string{
		"meta": "bytes in JSON, at most 2097152 are allowed", "attachments": "101 attachments, at most 100",
		"task": "bytes, at most 2359296 are allowed; its content was not kept",
	}
	put("task", wire.Message{Text: "a", Meta: map[string]string{"k": strings.Repeat("x", 5<<20)}})
	put("meta", wire.Message{Text: "a", Meta: map[string]string{"k": strings.Repeat("x", 2<<20)}})
	put("attachments", wire.Message{Text: "a", Attachments: slices.Repeat([]session.Attachment{{Name: "a", Path: "p"}}, 101)})
	ran := make(chan string, 10)
	r.worker(agent.Func(func(_ context.Context, turn *agent.Turn) (agent.Result, error) {
		ran <- turn.Messages[0].ID
		return agent.Result{}, nil
	}))
	_, err := receipt.Input(r.ctx, r.client.Session(r.key), turnstile.Message{ID: "good", Text: "good"})
	expect.OK(t, err)
	o, err := r.client.Session(r.key).Wait(r.ctx, "good")
	expect.OK(t, err)
	expect.Equal(t, "the next", o.Status, session.StatusDone)
	for id, reason := range reasons {
		o, err := r.client.Session(r.key).Wait(r.ctx, id)
		expect.OK(t, err)
		if o.Status != session.StatusFailed || !strings.Contains(o.Why(), reason) {
			t.Errorf("%s: %+v", id, o)
		}
	}
	n := 0
	for d, err := range r.client.Operate(r.key).DeadLetters(r.ctx) {
		expect.OK(t, err)
		if n++; !strings.Contains(d.Outcome.Why(), reasons[d.ID]) {
			t.Errorf("%+v", d)
		}
	}
	expect.Equal(t, "dead letters", n, 3)
	expect.Equal(t, "turns", fmt.Sprintln(len(ran), <-ran), "1 good\n")
}

// Queues of other producers with names that are not valid for sessions are skipped, and the log
// reports each once, also if they are in the indexes.
func TestInvalidQueueNamesAreSkipped(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	odd := []string{"", "a}b", "\x1b[31mred\x1b[0m", "a b", "ü", "-a", "a\nlevel=ERROR msg=forged", strings.Repeat("x", 257)}
	client := asynq.NewClientFromRedisClient(r.rdb)
	payload, err := wire.Message{Text: "hello"}.Payload()
	expect.OK(t, err)
	for _, name := range odd {
		_, err := client.EnqueueContext(r.ctx, asynq.NewTask(wire.TaskType, payload), asynq.Queue(rediskey.Queue(name)), asynq.TaskID("task"))
		expect.OK(t, err)
	}
	r.foreignTask("m1", wire.TaskType, payload)
	for i, name := range odd {
		index := []string{rediskey.Ready, rediskey.Owned, rediskey.Due, rediskey.Sessions}[i%4]
		expect.OK(t, r.rdb.ZAdd(r.ctx, index, redis.Z{Score: 1, Member: name}).Err())
	}
	var log lockedBuffer
	r.worker(echo.New(), with(func(o *worker.Config) {
		o.SweepInterval = 100 * time.Millisecond
		o.Jobs(true, 100*time.Millisecond)
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	}))
	r.ends("m1", session.StatusDone)
	expect.Soon(t, "a line of the log about each", func() bool { return strings.Count(log.String(), "a queue is skipped") >= len(odd) })
	expect.Soon(t, "the indexes to be without them", func() bool {
		for _, index := range []string{rediskey.Ready, rediskey.Owned, rediskey.Due, rediskey.Sessions} {
			for _, name := range odd {
				if r.rdb.ZScore(r.ctx, index, name).Err() == nil {
					return false
				}
			}
		}
		return true
	})
	for _, name := range odd {
		k := rediskey.For(name)
		if n := r.rdb.LLen(r.ctx, k.Pending()).Val(); n != 1 {
			t.Errorf("%q: %d tasks wait, want 1", name, n)
		}
		if n := r.rdb.Exists(r.ctx, k.Run(), k.Sentinel(), k.Record(), k.Events()).Val(); n != 0 {
			t.Errorf("%q was run", name)
		}
	}
	expect.Equal(t, "lines of the log about them", strings.Count(log.String(), "a queue is skipped"), len(odd))
	if infos, err := actors.Collect(r.client.Sessions(r.ctx, admin.Query{State: admin.StateBusy})); err != nil || len(infos) != 0 {
		t.Errorf("busy: %+v, %v", infos, err)
	}
}
