package worker_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"

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
