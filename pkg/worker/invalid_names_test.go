package worker_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/wire"
	"turnstile/pkg/admin"
	"turnstile/pkg/agent/echo"
	"turnstile/pkg/session"
	"turnstile/pkg/worker"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

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
