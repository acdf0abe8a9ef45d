package worker_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"turnstile"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/pkg/worker"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// wakesOf matches the commands that enter a session into an index.
func wakesOf(index string) redistest.Match {
	return func(cmd redis.Cmder) bool {
		return cmd.Name() == "zadd" && slices.Contains(cmd.Args(), any(index))
	}
}

// errFull is the error of a full Redis.
var errFull = errors.New("OOM command not allowed when used memory > 'maxmemory'")

// A stored end of a turn counts, although Redis refuses the wake-up after it. The worker repeats
// the wake-up: nothing else would find the session during the test. So it does after a claim that failed.
func TestWakeUpAfterAStoredEndFails(t *testing.T) {
	t.Parallel()
	t.Run("finish", func(t *testing.T) {
		t.Parallel()
		r, o, faults, st := newRig(t), &seen{}, &redistest.Faults{}, newStage()
		r.worker(st, observes(o), faulty(faults), slots(1), with(func(o *worker.Config) { o.ShareTurns(1) }))
		r.say("a1", "one")
		first := st.next(t, "a1")
		r.say("a2", "two")
		other := r.key + ".other"
		r.send(other, turnstile.Message{ID: "b1", Text: "other"})
		faults.FailBefore(wakesOf(rediskey.Ready), 3, errFull)
		first.reply("one")
		end := o.next(t, 0)
		expect.Equal(t, "status", end.Status, session.StatusDone)
		expect.Equal(t, "error", end.Err, nil)
		for range 2 { // in either order: the wake-up may succeed before the other session is claimed
			a := expect.Received(t, "the next turn", st.acts)
			a.reply("re: " + a.Messages[0].ID)
		}
		r.ends("a2", session.StatusDone)
		o.wakeUpFailed(t, r.key)
	})
	t.Run("claim", func(t *testing.T) {
		t.Parallel()
		r, o, faults, st := newRig(t), &seen{}, &redistest.Faults{}, newStage()
		expect.OK(t, r.rdb.Set(r.ctx, rediskey.Timer("sweep"), "nobody", time.Hour).Err()) // or a sweep would wake it
		sentinel := any(rediskey.For(r.key).Sentinel())
		faults.FailBefore(func(cmd redis.Cmder) bool { return slices.Contains(cmd.Args(), sentinel) }, 1, errFull)
		faults.FailBefore(wakesOf(rediskey.Ready), 2, errFull)
		r.worker(st, observes(o), faulty(faults))
		r.say("a1", "one")
		st.next(t, "a1").reply("one")
		r.ends("a1", session.StatusDone)
		if o.failures("wake") == 0 {
			t.Error("no failure is counted")
		}
	})
	t.Run("retry", func(t *testing.T) {
		t.Parallel()
		r, o, faults, st := newRig(t), &seen{}, &redistest.Faults{}, newStage()
		expect.OK(t, r.rdb.Set(r.ctx, rediskey.Timer("sweep"), "nobody", time.Hour).Err()) // or the first sweep would wake it
		r.worker(st, observes(o), faulty(faults))
		r.say("a1", "one")
		faults.FailBefore(wakesOf(rediskey.Due), 1, errFull)
		st.next(t, "a1").fail(agent.Retryable(errors.New("not now")))
		expect.Equal(t, "status", o.next(t, 0).Status, worker.StatusRetried)
		st.next(t, "a1").reply("one")
		r.ends("a1", session.StatusDone)
		o.wakeUpFailed(t, r.key)
	})
}

// wakeUpFailed checks that the failure has its own warning, with the session's key, and is
// counted.
func (s *seen) wakeUpFailed(t *testing.T, key string) {
	t.Helper()
	if s.failures("wake") == 0 {
		t.Error("no failure is counted")
	}
	for l := range strings.Lines(s.log.String()) {
		if strings.Contains(l, "level=WARN") && strings.Contains(l, "could not be woken") && strings.Contains(l, "session="+key) {
			return
		}
	}
	t.Errorf("no warning: %s", s.log.String())
}
