package worker_test

import (
	"errors"
	"testing"
	"time"

	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/pkg/worker"
	"turnstile/test/expect"
)

// betweenAttempts begins the turn of m1 and leaves it for an hour, after a failed attempt.
func betweenAttempts(r *rig, s *stage, does func(a *act)) {
	r.Helper()
	r.say("m1", "hello")
	a := s.next(r, "m1")
	does(a)
	a.fail(agent.Retryable(errors.New("flaky")))
	r.awaitEvent("the failed attempt", func(e session.Event) bool { return e.Type == session.EventTurnRetry })
}

func patient(o *worker.Config) { o.RetryBackoff = time.Hour }

// A steer that the agent was offered and has not taken runs by itself when its turn is ended between two attempts.
func TestSteerOfATurnThatIsEndedUnrun(t *testing.T) {
	t.Parallel()
	r, s := newRig(t), newStage()
	r.worker(steerStage{s}, with(patient))
	betweenAttempts(r, s, func(a *act) {
		r.say("m2", "and this", session.ModeSteer)
		a.steer(t, "m2")
	})
	r.say("m3", "now", session.ModeInterrupt)
	r.ends("m1", session.StatusInterrupted)
	for range 2 {
		expect.Received(t, "a turn", s.acts).reply("ok")
	}
	r.ends("m3", session.StatusDone)
	r.ends("m2", session.StatusDone)
}

// The agent's state, and what it did, outlive a turn that is ended between two attempts.
func TestStateOfATurnThatIsEndedUnrun(t *testing.T) {
	t.Parallel()
	r, s := newRig(t), newStage()
	r.worker(s, with(patient))
	betweenAttempts(r, s, func(a *act) {
		a.Emit(agent.Event{Type: session.EventState, Data: []byte(`"mine"`)})
		a.text("half")
	})
	r.command("/stop", "Ending the turn that waits to go on.")
	r.ends("m1", session.StatusStopped)
	r.say("m2", "next")
	a := s.next(t, "m2")
	expect.Equal(t, "state", string(a.State), `"mine"`)
	expect.List(t, "history", brief(a.History), "user hello", "assistant half\n\n[The user stopped this turn here.]")
	a.reply("ok")
	r.ends("m2", session.StatusDone)
}
