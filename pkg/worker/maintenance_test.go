package worker_test

import (
	"errors"
	"testing"

	"github.com/hibiken/asynq"

	"turnstile/pkg/agent/echo"
	"turnstile/pkg/worker"
)

// Two workers: each is on asynqmon's Servers page, and each job runs once.
func TestMaintenance(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	on := with(func(o *worker.Options) { o.Maintenance = true })
	one, two := r.worker(echo.New(), on), r.worker(echo.New(), on)
	inspector := asynq.NewInspectorFromRedisClient(r.rdb)
	const queue, jobs = "turnstile:maintenance", 3
	await(t, "the jobs", func() bool {
		info, err := inspector.GetQueueInfo(queue)
		if errors.Is(err, asynq.ErrQueueNotFound) {
			return false
		}
		must(t, err)
		return info.Completed >= jobs
	})
	servers, err := inspector.Servers()
	must(t, err)
	equal(t, "servers", len(servers), 2)
	first, second := drain(one), drain(two)
	receive(t, "the end of a drain", first)
	receive(t, "the end of a drain", second)
	tasks, err := inspector.ListCompletedTasks(queue)
	must(t, err)
	slots := map[string]int{}
	for _, task := range tasks {
		slots[task.ID]++
	}
	// A minute may have begun meanwhile: then there is one more slot.
	if len(slots) != len(tasks) || len(tasks) > jobs+1 {
		t.Errorf("%d tasks in %d slots", len(tasks), len(slots))
	}
	info, err := inspector.GetQueueInfo(queue)
	must(t, err)
	equal(t, "failures", info.Failed, 0)
	if servers, err = inspector.Servers(); err != nil || len(servers) != 0 {
		t.Errorf("%d servers are left, %v", len(servers), err)
	}
}
