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
	"turnstile/internal/chat/receipt"
	"turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

func inspect(b *actors.Bench, id string) *asynq.TaskInfo {
	b.Helper()
	info, err := b.Inspector().GetTaskInfo(actors.Queue, b.Task(id))
	expect.OK(b, err)
	return info
}

func counts(b *actors.Bench) *asynq.QueueInfo {
	b.Helper()
	info, err := b.Inspector().GetQueueInfo(actors.Queue)
	expect.OK(b, err)
	return info
}

// asynq's Inspector reads every state that the consumer leaves.
func TestContract_StatesReadBack(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.SayAll("done", "failed", "retried", "drained")
	h := b.Start()

	info := inspect(b, "done")
	expect.Equal(t, "state", info.State, asynq.TaskStateActive)
	active, err := b.Inspector().ListActiveTasks(actors.Queue)
	expect.OK(t, err)
	if len(active) != 1 || active[0].IsOrphaned || active[0].ID != b.Task("done") {
		t.Errorf("active: %+v", active[0])
	}
	b.Finish(h)
	info = inspect(b, "done")
	expect.Equal(t, "state", info.State, asynq.TaskStateCompleted)
	expect.Equal(t, "retention", info.Retention, time.Hour)
	expect.Equal(t, "last error", info.LastErr, "")
	actors.Recent(t, "completed at", info.CompletedAt)
	var e session.Event
	expect.OK(t, json.Unmarshal(info.Result, &e))
	expect.Equal(t, "result's reply", e.Reply, "re: done")
	expect.Equal(t, "payload", string(info.Payload), `{"v":1,"text":"done"}`)

	expect.OK(t, h.Promote(b.Ctx))
	_, err = h.Finish(b.Ctx, protocol.End{Status: session.StatusFailed, Error: "exit status 7"})
	expect.OK(t, err)
	info = inspect(b, "failed")
	expect.Equal(t, "state", info.State, asynq.TaskStateArchived)
	expect.Equal(t, "last error", info.LastErr, "exit status 7")
	actors.Recent(t, "last failed at", info.LastFailedAt)
	expect.Equal(t, "retried", info.Retried, 0)

	for n := 1; n <= 2; n++ {
		expect.OK(t, h.Promote(b.Ctx))
		expect.OK(t, h.Park(b.Ctx, protocol.Parking{Failed: fmt.Errorf("flaky %d", n)}))
		info = inspect(b, "retried")
		expect.Equal(t, "state", info.State, asynq.TaskStateActive)
		expect.Equal(t, "retried", info.Retried, n)
		expect.Equal(t, "last error", info.LastErr, fmt.Sprint("flaky ", n))
		actors.Recent(t, "last failed at", info.LastFailedAt)
		h = b.Claim()
		expect.Equal(t, "attempt", h.Turn().Attempt, n+1)
	}
	expect.OK(t, h.Promote(b.Ctx))
	b.Finish(h)
	expect.Equal(t, "retried after the end", inspect(b, "retried").Retried, 2)

	expect.OK(t, h.Park(b.Ctx, protocol.Parking{Interrupted: "drain"}))
	info = inspect(b, "drained")
	expect.Equal(t, "state", info.State, asynq.TaskStateActive)
	expect.Equal(t, "retried", info.Retried, 0)
	_, err = receipt.Input(b.Ctx, b.Client.Session(actors.Key), turnstile.Message{ID: "later", Text: "later", Delay: time.Hour})
	expect.OK(t, err)
	info = inspect(b, "later")
	expect.Equal(t, "state", info.State, asynq.TaskStateScheduled)
	if in := time.Until(info.NextProcessAt); in < 59*time.Minute || in > time.Hour {
		t.Errorf("next process in %s", in)
	}

	q := counts(b)
	expect.Equal(t, "pending active scheduled retry archived completed", fmt.Sprint(q.Pending, q.Active, q.Scheduled, q.Retry, q.Archived, q.Completed), "0 1 1 0 1 2")
	expect.Equal(t, "processed failed", fmt.Sprint(q.Processed, q.Failed, q.ProcessedTotal, q.FailedTotal), "3 1 3 1")
	expect.Equal(t, "size", q.Size, 5)
	for name, list := range map[string]func(string, ...asynq.ListOption) ([]*asynq.TaskInfo, error){
		"active": b.Inspector().ListActiveTasks, "scheduled": b.Inspector().ListScheduledTasks,
		"archived": b.Inspector().ListArchivedTasks, "completed": b.Inspector().ListCompletedTasks,
	} {
		if tasks, err := list(actors.Queue); err != nil || len(tasks) == 0 {
			t.Errorf("list of %s: %d, %v", name, len(tasks), err)
		}
	}
	b.Drain()
	b.Die()
	if q := counts(b); q.Latency != 0 || q.Pending != 0 {
		t.Errorf("empty queue: %+v", q)
	}
}

// The counters of a long run under one sentinel, and of a run that died.
func TestContract_Counters(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	for i := range 25 {
		b.Say(fmt.Sprint("m", i))
	}
	h := b.Start()
	for range 12 {
		b.Finish(h)
	}
	b.Die()
	h = b.Claim()
	for b.Finish(h) {
	}
	expect.Equal(t, "processed", fmt.Sprint(counts(b).Processed, counts(b).ProcessedTotal), "25 25")
	expect.Equal(t, "failed", counts(b).Failed, 0)
}

// An agent's error may have any bytes; asynq reads only UTF-8.
func TestContract_ErrorsOfAnyBytes(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{"not UTF-8": "bad \xff\xfe byte", "cut rune": "日本"[:4], "zero": "a\x00b", "long": strings.Repeat("é", 100_000)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			b.Say("a")
			expect.OK(t, b.Start().Park(b.Ctx, protocol.Parking{Failed: errors.New(text)}))
			if _, err := b.Inspector().ListPendingTasks(actors.Queue); err != nil {
				t.Errorf("pending tasks: %v", err)
			}
			if _, err := b.Inspector().GetTaskInfo(actors.Queue, b.Task("a")); err != nil {
				t.Errorf("after a retry: %v", err)
			}
			_, err := b.Start().Finish(b.Ctx, protocol.End{Status: session.StatusFailed, Error: text})
			expect.OK(t, err)
			if _, err := b.Inspector().GetTaskInfo(actors.Queue, b.Task("a")); err != nil {
				t.Errorf("archived: %v", err)
			}
			if tasks, err := b.Inspector().ListArchivedTasks(actors.Queue); err != nil || len(tasks) != 1 {
				t.Errorf("archived tasks: %d, %v", len(tasks), err)
			}
		})
	}
}

// Run in asynqmon requeues a dead letter, and its age begins again.
func TestContract_RunOfADeadLetter(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	h := b.Start()
	first := h.Turn()
	_, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusExpired, Error: "too old"})
	expect.OK(t, err)
	expect.OK(t, b.Inspector().RunTask(actors.Queue, b.Task("a")))
	expect.Equal(t, "state", b.State("a"), "pending")
	if _, ended, err := actors.Result(b.Ctx, b.Client.Session(actors.Key), "a"); ended || err != nil {
		t.Errorf("the result of a message that waits again: %v, %v", ended, err)
	}
	got, followed := b.WaitFor("a"), make(chan session.Status, 1)
	go func() {
		o, _ := actors.Follow(b.Ctx, b.Client.Session(actors.Key), "a", func(session.Event) {})
		followed <- o.Status
	}()
	b.Sweep()
	h = b.Start()
	if h.Turn().Age > 30*time.Second || h.Turn().Fence <= first.Fence {
		t.Errorf("turn: %+v", h.Turn())
	}
	b.Finish(h)
	expect.Equal(t, "status", (<-got).Status, session.StatusDone)
	expect.Equal(t, "status to a follower", <-followed, session.StatusDone)
}

// The operator's buttons at every point of a turn: the session survives each of them, and the next
// message runs.
func TestContract_ButtonsInMidTurn(t *testing.T) {
	t.Parallel()
	points := []string{"pending", "starting", "running", "retry", "requeued", "dead"}
	buttons := map[string]func(b *actors.Bench, i *asynq.Inspector){
		"pause":        func(b *actors.Bench, i *asynq.Inspector) { expect.OK(b, i.PauseQueue(actors.Queue)) },
		"archive":      func(b *actors.Bench, i *asynq.Inspector) { _ = i.ArchiveTask(actors.Queue, b.Task("a")) },
		"archive all":  func(b *actors.Bench, i *asynq.Inspector) { _, _ = i.ArchiveAllPendingTasks(actors.Queue) },
		"delete":       func(b *actors.Bench, i *asynq.Inspector) { _ = i.DeleteTask(actors.Queue, b.Task("a")) },
		"delete all":   func(b *actors.Bench, i *asynq.Inspector) { _, _ = i.DeleteAllPendingTasks(actors.Queue) },
		"run":          func(b *actors.Bench, i *asynq.Inspector) { _ = i.RunTask(actors.Queue, b.Task("a")) },
		"cancel":       func(b *actors.Bench, i *asynq.Inspector) { expect.OK(b, i.CancelProcessing(b.Task("a"))) },
		"delete queue": func(b *actors.Bench, i *asynq.Inspector) { deleteQueue(b, i) },
		"archive, run": func(b *actors.Bench, i *asynq.Inspector) {
			_ = i.ArchiveTask(actors.Queue, b.Task("a"))
			_ = i.RunTask(actors.Queue, b.Task("a"))
		},
		"delete payload": func(b *actors.Bench, i *asynq.Inspector) {
			_ = i.UpdateTaskPayload(actors.Queue, b.Task("a"), []byte("{}"))
		},
	}
	for name, press := range buttons {
		for _, point := range points {
			t.Run(name+"/"+point, func(t *testing.T) {
				t.Parallel()
				b := actors.NewBench(t)
				b.SayAll("a", "b")
				var h *protocol.Claim
				switch point {
				case "starting":
					h = b.Claim()
				case "running":
					h = b.Start()
				case "retry":
					expect.OK(t, b.Start().Park(b.Ctx, protocol.Parking{Failed: errors.New("x")}))
				case "requeued":
					expect.OK(t, b.Start().Park(b.Ctx, protocol.Parking{Interrupted: "x"}))
				case "dead":
					b.Start()
					b.Die()
				}
				press(b, b.Inspector())
				if h != nil {
					if _, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusDone, Reply: "r", Entries: []session.Entry{{Text: "t"}}, Release: true}); err != nil {
						t.Errorf("finish: %v", err)
					}
				}
				_ = b.Inspector().UnpauseQueue(actors.Queue)
				b.Say("c")
				b.Drain()
				expect.Equal(t, "the next message", b.Outcome("c").Status, session.StatusDone)
				noHalves(b)
			})
		}
	}
}

// deleteQueue presses asynqmon's button. asynq refuses while a task is active; then it deletes the
// queue by hand.
func deleteQueue(b *actors.Bench, i *asynq.Inspector) {
	b.Helper()
	active := b.Redis.LLen(b.Ctx, b.Keys.Active()).Val()
	err := i.DeleteQueue(actors.Queue, true)
	if (active > 0) != (err != nil) {
		b.Errorf("delete queue with %d active: %v", active, err)
	}
	if err != nil {
		for _, name := range b.Redis.Keys(b.Ctx, "asynq:{*").Val() {
			b.Redis.Del(b.Ctx, name)
		}
	}
}

// noHalves checks that every task has its msg and its ID in a list, and every ID its task.
func noHalves(b *actors.Bench) {
	b.Helper()
	listed := map[string]bool{}
	for _, list := range []string{b.Keys.Pending(), b.Keys.Active()} {
		for _, id := range b.Redis.LRange(b.Ctx, list, 0, -1).Val() {
			listed[id] = true
		}
	}
	for _, zset := range []string{b.Keys.Scheduled(), b.Keys.Retry(), b.Keys.Archived(), b.Keys.Completed()} {
		for _, id := range b.Redis.ZRange(b.Ctx, zset, 0, -1).Val() {
			listed[id] = true
		}
	}
	for _, name := range b.Redis.Keys(b.Ctx, b.Keys.TaskPrefix()+"*").Val() {
		id := strings.TrimPrefix(name, b.Keys.TaskPrefix())
		if b.Redis.HGet(b.Ctx, name, "msg").Val() == "" || !listed[id] {
			b.Errorf("task %s is half: listed %v, %q", id, listed[id], b.Redis.HGetAll(b.Ctx, name).Val())
		}
		delete(listed, id)
	}
	for id := range listed {
		b.Errorf("%s is listed and has no task", id)
	}
	if n := b.Redis.Exists(b.Ctx, b.Keys.Active(), b.Keys.Lease(), b.Keys.Sentinel()).Val(); n != 0 {
		b.Errorf("%d of active, lease and sentinel are left", n)
	}
}

// DeleteQueue in mid-turn, then a new message with the same id: the old message's owner acks
// nothing of it.
func TestContract_DeleteQueueAndTheSameIDAgain(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	h := b.Start()
	deleteQueue(b, b.Inspector())
	expect.OK(t, b.Redis.Del(b.Ctx, b.Keys.Idem("a")).Err()) // a day later
	expect.Equal(t, "again", b.Say("a").Status, receipt.Queued)
	expect.Equal(t, "has a next turn", b.Finish(h), true)
	expect.Equal(t, "with", h.Turn().Message.ID, "a")
	expect.Equal(t, "state", b.State("a"), "active")
	expect.Equal(t, "listed", b.Redis.SIsMember(b.Ctx, rediskey.AllQueues, actors.Queue).Val(), true)
	b.Finish(h)
	noHalves(b)
}
