package worker_test

import (
	"strings"
	"testing"
	"time"

	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/worker"
	"turnstile/test/expect"
)

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
