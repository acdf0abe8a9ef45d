package worker_test

import (
	"errors"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"turnstile"
	sq "turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/test/expect"
)

// press presses asynqmon's Cancel.
func (r *rig) press(id string) {
	r.Helper()
	expect.OK(r, asynq.NewInspectorFromRedisClient(r.rdb).CancelProcessing(id))
}

// asynqmon's Cancel ends a turn that waits without a worker, whatever it waits for, once, and no agent runs. Another
// session's turn with the same message goes on waiting, and so does the next message until the turn has ended.
func TestInspectorCancelEndsAWaitingTurn(t *testing.T) {
	t.Parallel()
	for name, waits := range map[string]func(t *testing.T, a *act){
		"the next attempt": func(_ *testing.T, a *act) { a.fail(agent.Retryable(errors.New("flaky"))) },
		"a decision":       func(t *testing.T, a *act) { a.parks(t) },
		"a value": func(t *testing.T, a *act) {
			_, end := a.waits(agent.Wait{})
			err := expect.Received(t, "the end of the wait", end).err
			wantErr(t, "the wait", err, agent.ErrParked)
			a.fail(err)
		},
		"a time": func(t *testing.T, a *act) {
			_, err := a.Wait(a.ctx, agent.Wait{Key: "nap", Timer: true, Timeout: time.Hour})
			wantErr(t, "the wait", err, agent.ErrParked)
			a.fail(err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, s := newRig(t), newStage()
			for range 2 {
				r.worker(s, with(patient), parkAfter(time.Millisecond))
			}
			other := r.key + "-other"
			for _, key := range []string{r.key, other} {
				r.send(key, turnstile.Message{ID: "m1", Text: "hello"})
				waits(t, s.next(t, "m1"))
				expect.Soon(t, "the turn to be parked", func() bool {
					info, err := r.client.Session(key).Info(r.ctx)
					return err == nil && info.Phase == session.PhaseParked
				})
			}
			r.say("m2", "behind")
			r.press("00000000-unknown")
			r.press(rediskey.TaskID(r.key, "m2")) // it is not active
			r.press(rediskey.TaskID(r.key, "m1"))
			expect.Equal(t, "error", r.ends("m1", session.StatusStopped).Error, "stopped by user")
			s.next(t, "m2").reply("two")
			r.ends("m2", session.StatusDone)
			audit, err := sq.Audit(r.ctx, r.rdb, r.key)
			expect.OK(t, err)
			expect.Equal(t, "cancels", len(audit), 1)
			info, err := r.client.Session(other).Info(r.ctx)
			expect.OK(t, err)
			expect.Equal(t, "the other session", info.Phase, session.PhaseParked)
		})
	}
}
