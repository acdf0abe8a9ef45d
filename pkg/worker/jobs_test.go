package worker_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"turnstile"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/agent/echo"
	"turnstile/pkg/worker"
	"turnstile/test/expect"
)

// Both workers are on asynqmon's Servers page, and each job runs once.
func TestMaintenance(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	on := with(func(o *worker.Config) { o.Jobs(true, 2*time.Second) })
	one, two := r.worker(echo.New(), on), r.worker(echo.New(), on)
	inspector := asynq.NewInspectorFromRedisClient(r.rdb)
	const queue, jobs = "turnstile:maintenance", 5
	expect.Soon(t, "the jobs", func() bool {
		queues, err := inspector.Queues()
		expect.OK(t, err)
		if !slices.Contains(queues, queue) {
			return false
		}
		info, err := inspector.GetQueueInfo(queue)
		expect.OK(t, err)
		return info.Completed >= jobs
	})
	servers, err := inspector.Servers()
	expect.OK(t, err)
	expect.Equal(t, "servers", len(servers), 2)
	first, second := drain(one), drain(two)
	expect.Received(t, "the end of a drain", first)
	expect.Received(t, "the end of a drain", second)
	tasks, err := inspector.ListCompletedTasks(queue)
	expect.OK(t, err)
	slots := map[string]bool{}
	for _, task := range tasks {
		slots[task.ID[strings.LastIndex(task.ID, "-"):]] = true
	}
	if len(tasks) > jobs*len(slots) {
		t.Errorf("%d tasks for %d jobs in %d time slots of two workers", len(tasks), jobs, len(slots))
	}
	info, err := inspector.GetQueueInfo(queue)
	expect.OK(t, err)
	expect.Equal(t, "failures", info.Failed, 0)
	if servers, err = inspector.Servers(); err != nil || len(servers) != 0 {
		t.Errorf("%d servers are left, %v", len(servers), err)
	}
}

// A broken session is warned about once, however often the sweep finds it.
func TestBrokenSessionIsWarnedAboutOnce(t *testing.T) {
	t.Parallel()
	r, o := newRig(t), &seen{}
	expect.OK(t, r.rdb.Set(r.ctx, r.k.Pending(), "spoilt", 0).Err())
	expect.OK(t, r.rdb.SAdd(r.ctx, rediskey.AllQueues, rediskey.Queue(r.key)).Err())
	r.worker(newStage(), observes(o), with(func(o *worker.Config) { o.SweepInterval = 20 * time.Millisecond }))
	expect.Soon(t, "four sweeps", func() bool { return o.failures("sweep") >= 4 })
	expect.Equal(t, "warnings", strings.Count(o.log.String(), "job=sweep"), 1)
}

// servers returns the rows of asynqmon's Servers page.
func (r *rig) servers() []*asynq.ServerInfo {
	r.Helper()
	all, err := asynq.NewInspectorFromRedisClient(r.rdb).Servers()
	expect.OK(r, err)
	return all
}

// A worker runs ten turns: asynqmon's Servers page has one row for it, with its slots and these
// turns. The row stays while the worker drains, and goes at the end.
func TestServersPage(t *testing.T) {
	t.Parallel()
	r, s := newRig(t), newStage()
	w := r.worker(s, slots(12), with(func(o *worker.Config) {
		o.DrainTimeout, o.AgentTimeout = time.Minute, 20*time.Minute
		o.Jobs(true, 0)
	}))
	const turns = 10
	want, acts := map[string]string{}, []*act{}
	for i := range turns {
		key := fmt.Sprint(r.key, "-", i)
		r.send(key, turnstile.Message{ID: "m1", Text: "a secret"})
		want[rediskey.TaskID(key, "m1")] = rediskey.Queue(key)
		acts = append(acts, s.next(t, "m1"))
	}
	var row *asynq.ServerInfo
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the last row: %+v", row)
		}
	})
	expect.Soon(t, "the heartbeat behind the turns' starts", func() bool {
		all := r.servers()
		if len(all) != 1 {
			return false
		}
		row = all[0]
		return len(row.ActiveWorkers) == turns
	})
	expect.Equal(t, "concurrency", row.Concurrency, 12)
	expect.Equal(t, "status", row.Status, "active")
	for _, a := range row.ActiveWorkers {
		expect.Equal(t, "queue of "+a.TaskID, a.Queue, want[a.TaskID])
		delete(want, a.TaskID)
		if strings.Contains(string(a.TaskPayload), "secret") {
			t.Errorf("the payload: %s", a.TaskPayload)
		}
		if took := a.Deadline.Sub(a.Started); took != 20*time.Minute {
			t.Errorf("the deadline is %s behind the start", took)
		}
	}
	expect.Equal(t, "turns that are not shown", len(want), 0)

	acts[0].reply("done")
	drained := drain(w)
	expect.Soon(t, "the heartbeat of a worker that drains", func() bool {
		all := r.servers()
		return len(all) == 1 && all[0].Status == "stopped" && len(all[0].ActiveWorkers) == turns-1
	})
	for _, a := range acts[1:] {
		a.reply("done")
	}
	expect.Received(t, "the end of the drain", drained)
	expect.Equal(t, "rows when it is over", len(r.servers()), 0)
}
