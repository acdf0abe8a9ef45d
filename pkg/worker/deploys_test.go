package worker_test

import (
	"testing"

	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/test/expect"
)

// A rolling deploy drains all old workers while one turn runs: it is interrupted each time, and the conversation
// stays. So it does if each run ends a tool that none had ended before.
func TestDeploysKeepTheConversation(t *testing.T) {
	t.Parallel()
	r, first := newRig(t), newStage()
	r.say("m0", "before")
	old := r.worker(first, drainTimeout(0), slots(1))
	first.next(t, "m0").reply("ok")
	r.ends("m0", session.StatusDone)
	type running struct {
		stage *stage
		drain func() <-chan bool
	}
	start := func() running {
		s := newStage()
		w := r.worker(s, drainTimeout(0), slots(1))
		return running{s, func() <-chan bool { return drain(w) }}
	}
	r.say("m1", "slow")
	a := first.next(t, "m1")
	others := []running{start()}
	drains := func(end <-chan bool, what string, interruptions int) {
		t.Helper()
		expect.Received(t, "the end of the drain", end)
		expect.Equal(t, "interruptions after "+what, r.resumeRecord(r.key).Interruptions, interruptions)
	}
	a.text("half")
	drains(drain(old), "the first drain", 1)
	second := others[0].stage.next(t, "m1")
	others = append(others, start())
	second.text("half")
	drains(others[0].drain(), "that of a worker that was there before", 1)
	use := func(a *act, name string) {
		a.Emit(agent.Event{Type: session.EventToolStart, Name: "search", CallID: "1", Input: []byte(`{"q": "` + name + `"}`)})
		a.Emit(agent.Event{Type: session.EventToolEnd, CallID: "1", Output: []byte(`1`)})
	}
	for i, query := range []string{"a", "b", "c", "d"} {
		here := others[len(others)-1]
		b := here.stage.next(t, "m1")
		for _, again := range []string{"a", "b", "c", "d"}[:i+1] {
			use(b, again)
		}
		others = append(others, start())
		drains(here.drain(), "a run that searched for "+query, 1)
	}
	here := others[len(others)-1]
	b := here.stage.next(t, "m1")
	use(b, "d")
	others = append(others, start())
	drains(here.drain(), "a run with nothing new", 2)
	c := others[len(others)-1].stage.next(t, "m1")
	expect.Equal(t, "what the agent knows", c.History[0].Text, "before")
	c.reply("done")
	r.ends("m1", session.StatusDone)
}
