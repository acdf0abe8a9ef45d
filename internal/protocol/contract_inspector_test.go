package protocol_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"turnstile"
	sq "turnstile/internal/protocol"
	"turnstile/internal/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/expect"
)

func unmarshal(v any, into any) error {
	text, _ := v.(string)
	return json.Unmarshal([]byte(text), into)
}

func (b *bench) inspect(id string) *asynq.TaskInfo {
	b.Helper()
	info, err := b.inspector().GetTaskInfo(queue, b.task(id))
	expect.OK(b, err)
	return info
}

func (b *bench) counts() *asynq.QueueInfo {
	b.Helper()
	info, err := b.inspector().GetQueueInfo(queue)
	expect.OK(b, err)
	return info
}

func recent(t testing.TB, what string, at time.Time) {
	t.Helper()
	if d := time.Since(at); d < -2*time.Second || d > time.Minute {
		t.Errorf("%s: %s", what, at)
	}
}

// Every state that the consumer leaves is read back right.
func TestContract_StatesReadBack(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.sayAll("done", "failed", "retried", "drained")
	h := b.start()

	info := b.inspect("done")
	expect.Equal(t, "state", info.State, asynq.TaskStateActive)
	active, err := b.inspector().ListActiveTasks(queue)
	expect.OK(t, err)
	if len(active) != 1 || active[0].IsOrphaned || active[0].ID != b.task("done") {
		t.Errorf("active: %+v", active[0])
	}
	b.finish(h)
	info = b.inspect("done")
	expect.Equal(t, "state", info.State, asynq.TaskStateCompleted)
	expect.Equal(t, "retention", info.Retention, time.Hour)
	expect.Equal(t, "last error", info.LastErr, "")
	recent(t, "completed at", info.CompletedAt)
	var e session.Event
	expect.OK(t, json.Unmarshal(info.Result, &e))
	expect.Equal(t, "result's reply", e.Reply, "re: done")
	expect.Equal(t, "payload", string(info.Payload), `{"v":1,"text":"done"}`)

	expect.OK(t, h.Promote(b.ctx))
	_, err = h.Finish(b.ctx, sq.End{Status: session.StatusFailed, Error: "exit status 7"})
	expect.OK(t, err)
	info = b.inspect("failed")
	expect.Equal(t, "state", info.State, asynq.TaskStateArchived)
	expect.Equal(t, "last error", info.LastErr, "exit status 7")
	recent(t, "last failed at", info.LastFailedAt)
	expect.Equal(t, "retried", info.Retried, 0)

	for n := 1; n <= 2; n++ {
		expect.OK(t, h.Promote(b.ctx))
		expect.OK(t, h.Retry(b.ctx, fmt.Errorf("flaky %d", n), 0))
		info = b.inspect("retried")
		expect.Equal(t, "state", info.State, asynq.TaskStatePending)
		expect.Equal(t, "retried", info.Retried, n)
		expect.Equal(t, "last error", info.LastErr, fmt.Sprint("flaky ", n))
		recent(t, "last failed at", info.LastFailedAt)
		h = b.claim()
		expect.Equal(t, "attempt", h.Turn().Attempt, n+1)
	}
	expect.OK(t, h.Promote(b.ctx))
	b.finish(h)
	expect.Equal(t, "retried after the end", b.inspect("retried").Retried, 2)

	expect.OK(t, h.Requeue(b.ctx, "drain"))
	info = b.inspect("drained")
	expect.Equal(t, "state", info.State, asynq.TaskStatePending)
	expect.Equal(t, "retried", info.Retried, 0)
	_, err = b.client.Submit(b.ctx, key, session.Message{ID: "later", Text: "later"}, turnstile.Delay(time.Hour))
	expect.OK(t, err)
	info = b.inspect("later")
	expect.Equal(t, "state", info.State, asynq.TaskStateScheduled)
	if in := time.Until(info.NextProcessAt); in < 59*time.Minute || in > time.Hour {
		t.Errorf("next process in %s", in)
	}

	q := b.counts()
	expect.Equal(t, "pending active scheduled retry archived completed", fmt.Sprint(q.Pending, q.Active, q.Scheduled, q.Retry, q.Archived, q.Completed), "1 0 1 0 1 2")
	expect.Equal(t, "processed failed", fmt.Sprint(q.Processed, q.Failed, q.ProcessedTotal, q.FailedTotal), "3 1 3 1")
	expect.Equal(t, "size", q.Size, 5)
	for name, list := range map[string]func(string, ...asynq.ListOption) ([]*asynq.TaskInfo, error){
		"pending": b.inspector().ListPendingTasks, "scheduled": b.inspector().ListScheduledTasks,
		"archived": b.inspector().ListArchivedTasks, "completed": b.inspector().ListCompletedTasks,
	} {
		if tasks, err := list(queue); err != nil || len(tasks) == 0 {
			t.Errorf("list of %s: %d, %v", name, len(tasks), err)
		}
	}
	b.drain()
	b.die()
	if q := b.counts(); q.Latency != 0 || q.Pending != 0 {
		t.Errorf("empty queue: %+v", q)
	}
}

// The counters of a long run under one sentinel, and of one that died.
func TestContract_Counters(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for i := range 25 {
		b.say(fmt.Sprint("m", i))
	}
	h := b.start()
	for range 12 {
		b.finish(h)
	}
	b.die()
	h = b.claim()
	for b.finish(h) {
	}
	expect.Equal(t, "processed", fmt.Sprint(b.counts().Processed, b.counts().ProcessedTotal), "25 25")
	expect.Equal(t, "failed", b.counts().Failed, 0)
}

// An agent's error may hold any bytes; asynq reads only UTF-8.
func TestContract_ErrorsOfAnyBytes(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{"not UTF-8": "bad \xff\xfe byte", "cut rune": "日本"[:4], "zero": "a\x00b", "long": strings.Repeat("é", 100_000)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.say("a")
			expect.OK(t, b.start().Retry(b.ctx, errors.New(text), 0))
			if _, err := b.inspector().ListPendingTasks(queue); err != nil {
				t.Errorf("pending tasks: %v", err)
			}
			if _, err := b.inspector().GetTaskInfo(queue, b.task("a")); err != nil {
				t.Errorf("after a retry: %v", err)
			}
			_, err := b.start().Finish(b.ctx, sq.End{Status: session.StatusFailed, Error: text})
			expect.OK(t, err)
			if _, err := b.inspector().GetTaskInfo(queue, b.task("a")); err != nil {
				t.Errorf("archived: %v", err)
			}
			if tasks, err := b.inspector().ListArchivedTasks(queue); err != nil || len(tasks) != 1 {
				t.Errorf("archived tasks: %d, %v", len(tasks), err)
			}
		})
	}
}

// Run in asynqmon brings a dead letter back, and it is judged anew.
func TestContract_RunOfADeadLetter(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.say("a")
	h := b.start()
	first := h.Turn()
	_, err := h.Finish(b.ctx, sq.End{Status: session.StatusExpired, Error: "too old"})
	expect.OK(t, err)
	expect.OK(t, b.inspector().RunTask(queue, b.task("a")))
	expect.Equal(t, "state", b.state("a"), "pending")
	if _, ended, err := b.client.Result(b.ctx, key, "a"); ended || err != nil {
		t.Errorf("the result of a message that waits again: %v, %v", ended, err)
	}
	got, followed := b.waitFor("a"), make(chan session.Status, 1)
	go func() {
		o, _ := b.client.Follow(b.ctx, key, "a", func(session.Event) {})
		followed <- o.Status
	}()
	b.sweep()
	h = b.start()
	if h.Turn().Age > 30*time.Second || h.Turn().Fence <= first.Fence {
		t.Errorf("turn: %+v", h.Turn())
	}
	b.finish(h)
	expect.Equal(t, "status", (<-got).Status, session.StatusDone)
	expect.Equal(t, "status to a follower", <-followed, session.StatusDone)
}

// The operator's buttons at every point of a turn. The session survives each of
// them, and what comes afterwards runs.
func TestContract_ButtonsInMidTurn(t *testing.T) {
	t.Parallel()
	points := []string{"pending", "starting", "running", "retry", "requeued", "dead"}
	buttons := map[string]func(b *bench, i *asynq.Inspector){
		"pause":        func(b *bench, i *asynq.Inspector) { expect.OK(b, i.PauseQueue(queue)) },
		"archive":      func(b *bench, i *asynq.Inspector) { _ = i.ArchiveTask(queue, b.task("a")) },
		"archive all":  func(b *bench, i *asynq.Inspector) { _, _ = i.ArchiveAllPendingTasks(queue) },
		"delete":       func(b *bench, i *asynq.Inspector) { _ = i.DeleteTask(queue, b.task("a")) },
		"delete all":   func(b *bench, i *asynq.Inspector) { _, _ = i.DeleteAllPendingTasks(queue) },
		"run":          func(b *bench, i *asynq.Inspector) { _ = i.RunTask(queue, b.task("a")) },
		"cancel":       func(b *bench, i *asynq.Inspector) { expect.OK(b, i.CancelProcessing(b.task("a"))) },
		"delete queue": func(b *bench, i *asynq.Inspector) { b.deleteQueue(i) },
		"archive, run": func(b *bench, i *asynq.Inspector) {
			_ = i.ArchiveTask(queue, b.task("a"))
			_ = i.RunTask(queue, b.task("a"))
		},
		"delete payload": func(b *bench, i *asynq.Inspector) { _ = i.UpdateTaskPayload(queue, b.task("a"), []byte("{}")) },
	}
	for name, press := range buttons {
		for _, point := range points {
			t.Run(name+"/"+point, func(t *testing.T) {
				t.Parallel()
				b := newBench(t)
				b.sayAll("a", "b")
				var h *sq.Claim
				switch point {
				case "starting":
					h = b.claim()
				case "running":
					h = b.start()
				case "retry":
					expect.OK(t, b.start().Retry(b.ctx, errors.New("x"), 0))
				case "requeued":
					expect.OK(t, b.start().Requeue(b.ctx, "x"))
				case "dead":
					b.start()
					b.die()
				}
				press(b, b.inspector())
				if h != nil {
					if _, err := h.Finish(b.ctx, sq.End{Status: session.StatusDone, Reply: "r", Entries: []session.Entry{{Text: "t"}}, Release: true}); err != nil {
						t.Errorf("finish: %v", err)
					}
				}
				_ = b.inspector().UnpauseQueue(queue)
				b.say("c")
				b.drain()
				expect.Equal(t, "the next message", b.outcome("c").Status, session.StatusDone)
				noHalves(b)
			})
		}
	}
}

// deleteQueue is asynqmon's button, which asynq refuses while a task is active;
// then somebody does the same by hand.
func (b *bench) deleteQueue(i *asynq.Inspector) {
	b.Helper()
	active := b.rdb.LLen(b.ctx, b.k.Active()).Val()
	err := i.DeleteQueue(queue, true)
	if (active > 0) != (err != nil) {
		b.Errorf("delete queue with %d active: %v", active, err)
	}
	if err != nil {
		for _, name := range b.rdb.Keys(b.ctx, "asynq:{*").Val() {
			b.rdb.Del(b.ctx, name)
		}
	}
}

// noHalves looks for tasks without a msg, ids without a task and the other way.
func noHalves(b *bench) {
	b.Helper()
	listed := map[string]bool{}
	for _, list := range []string{b.k.Pending(), b.k.Active()} {
		for _, id := range b.rdb.LRange(b.ctx, list, 0, -1).Val() {
			listed[id] = true
		}
	}
	for _, zset := range []string{b.k.Scheduled(), b.k.Retry(), b.k.Archived(), b.k.Completed()} {
		for _, id := range b.rdb.ZRange(b.ctx, zset, 0, -1).Val() {
			listed[id] = true
		}
	}
	for _, name := range b.rdb.Keys(b.ctx, b.k.TaskPrefix()+"*").Val() {
		id := strings.TrimPrefix(name, b.k.TaskPrefix())
		if b.rdb.HGet(b.ctx, name, "msg").Val() == "" || !listed[id] {
			b.Errorf("task %s is half: listed %v, %q", id, listed[id], b.rdb.HGetAll(b.ctx, name).Val())
		}
		delete(listed, id)
	}
	for id := range listed {
		b.Errorf("%s is listed and has no task", id)
	}
	if n := b.rdb.Exists(b.ctx, b.k.Active(), b.k.Lease(), b.k.Sentinel()).Val(); n != 0 {
		b.Errorf("%d of active, lease and sentinel are left", n)
	}
}

// DeleteQueue in mid-turn, and a new message under the same id: the owner of the
// old one acks nothing of it.
func TestContract_DeleteQueueAndTheSameIDAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.say("a")
	h := b.start()
	b.deleteQueue(b.inspector())
	expect.Equal(t, "again", b.say("a").Status, turnstile.Queued)
	expect.Equal(t, "goes on", b.finish(h), true)
	expect.Equal(t, "with", h.Turn().Message.ID, "a")
	expect.Equal(t, "state", b.state("a"), "active")
	expect.Equal(t, "listed", b.rdb.SIsMember(b.ctx, rediskey.AllQueues, queue).Val(), true)
	b.finish(h)
	noHalves(b)
}
