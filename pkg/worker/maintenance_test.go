package worker_test

import (
	"slices"
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
		queues, err := inspector.Queues()
		must(t, err)
		if !slices.Contains(queues, queue) {
			return false
		}
		info, err := inspector.GetQueueInfo(queue)
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
	// A minute may have begun meanwhile: then there is one more.
	if len(tasks) > jobs+1 {
		t.Errorf("%d tasks for %d jobs of two workers", len(tasks), jobs)
	}
	info, err := inspector.GetQueueInfo(queue)
	must(t, err)
	equal(t, "failures", info.Failed, 0)
	if servers, err = inspector.Servers(); err != nil || len(servers) != 0 {
		t.Errorf("%d servers are left, %v", len(servers), err)
	}
}
