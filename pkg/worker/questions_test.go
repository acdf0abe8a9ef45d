package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"turnstile"

	sq "turnstile/internal/protocol"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/pkg/worker"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// decided is how a question ended.
type decided struct {
	session.Decision
	err error
}

// ask asks for permission, and waits until the question is known.
func (a *act) ask(ctx context.Context, r *rig, name string) <-chan decided {
	r.Helper()
	ended := make(chan decided, 1)
	go func() {
		answer, err := a.Ask(ctx, agent.Question{CallID: "c1", Name: name, Input: json.RawMessage(`{"x":1}`)})
		ended <- decided{answer, err}
	}()
	return ended
}

func (r *rig) asked(number string) session.Event {
	r.Helper()
	return r.awaitEvent("question "+number, func(e session.Event) bool { return e.Type == session.EventQuestionAsked && e.CallID == number })
}

func (r *rig) decided(number string) session.Decision {
	r.Helper()
	return r.awaitEvent("the decision on "+number, func(e session.Event) bool { return e.Type == session.EventQuestionAnswered && e.CallID == number }).Decision
}

// The agent's question reaches the user, and the user's decision the agent. Two questions are
// asked one after the other.
func TestQuestionAndDecision(t *testing.T) {
	t.Parallel()
	r, _, a := inTurn(t)
	one := a.ask(a.ctx, r, "run make")
	e := r.asked("1")
	expect.Equal(t, "the question", e.Name+string(e.Input)+e.Turn, `run make{"x":1}`+a.ID)
	two := a.ask(a.ctx, r, "run rm")
	r.command("/status", "The agent asks for permission: run make. /approve 1 or /deny 1")
	r.command("/deny 2", "Question 2 is no longer open; question 1 is: run make.")
	r.command("/approve 1 always", "Approved question 1: run make.")
	expect.Equal(t, "the decision", expect.Received(t, "the decision", one), decided{session.Always, nil})
	expect.Equal(t, "decision", r.decided("1"), session.Allow)
	r.asked("2")
	r.command("/deny", "Nothing was decided: question 2 is new, run rm. Write /approve 2 or /deny 2")
	r.command("/deny 2", "Denied question 2: run rm.")
	expect.Equal(t, "the second decision", expect.Received(t, "the decision", two), decided{session.Deny, nil})
	expect.Equal(t, "second decision", r.decided("2"), session.Deny)
	r.command("/approve", "That question was already decided.")
	a.reply("ok")
	r.ends("m1", session.StatusDone)
	r.command("/approve", "There is no open question.")
}

// A decision with a lost signal comes with the next renewal.
func TestDecisionWithoutASignal(t *testing.T) {
	t.Parallel()
	r, _, a := inTurn(t, sentinelTTL(expect.Lease(time.Second)))
	got := a.ask(a.ctx, r, "run make")
	r.asked("1")
	expect.OK(t, r.rdb.HSet(r.ctx, r.k.Run(), "answered", fmt.Sprintf("%d 1 allow call", a.Fence)).Err())
	expect.Equal(t, "the decision", expect.Received(t, "the decision", got), decided{session.Allow, nil})
	a.reply("ok")
}

// A question ends with its turn, or when the agent cancels it.
func TestQuestionsEnd(t *testing.T) {
	t.Parallel()
	t.Run("the turn is stopped", func(t *testing.T) {
		t.Parallel()
		r, _, a := inTurn(t)
		got := a.ask(context.Background(), r, "run make")
		r.asked("1")
		r.command("/stop", "Stopping the running turn.")
		if err := expect.Received(t, "the end", got).err; !errors.Is(err, sq.ErrStopRequested) {
			t.Errorf("%v", err)
		}
		r.ends("m1", session.StatusStopped)
		r.command("/approve", "There is no open question.")
	})
	t.Run("the agent gives up", func(t *testing.T) {
		t.Parallel()
		r, _, a := inTurn(t)
		ctx, cancel := context.WithCancelCause(a.ctx)
		got := a.ask(ctx, r, "run make")
		r.asked("1")
		enough := errors.New("enough")
		cancel(enough)
		if err := expect.Received(t, "the end", got).err; !errors.Is(err, enough) {
			t.Errorf("%v", err)
		}
		expect.Equal(t, "decision", r.decided("1"), session.Cancelled)
		r.command("/approve 1", "There is no open question.")
		again := a.ask(a.ctx, r, "run rm")
		r.asked("2")
		r.command("/approve 2", "Approved question 2: run rm.")
		expect.Equal(t, "the next decision", expect.Received(t, "the decision", again).Allowed(), true)
		a.reply("ok")
	})
	t.Run("the worker drains", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		s := newStage()
		w := r.worker(s)
		r.say("m1", "hello")
		a := s.next(t, "m1")
		got := a.ask(a.ctx, r, "run make")
		r.asked("1")
		w.Drain(ended(), worker.ReasonShutdown)
		if expect.Received(t, "the end", got).err == nil {
			t.Error("a decision")
		}
		r.command("/approve", "There is no open question.")
		r.worker(s)
		again := s.next(t, "m1")
		got = again.ask(again.ctx, r, "run make")
		expect.Soon(t, "the question to be asked again", func() bool { return r.info().Question != nil })
		r.command("/approve 2", "Approved question 2: run make.")
		expect.Equal(t, "the decision", expect.Received(t, "the decision", got).Allowed(), true)
		again.reply("ok")
		r.ends("m1", session.StatusDone)
	})
}

// Unknown decisions, of a later version, are denials.
func TestUnknownDecision(t *testing.T) {
	t.Parallel()
	r, _, a := inTurn(t, sentinelTTL(expect.Lease(time.Second)))
	got := a.ask(a.ctx, r, "run make")
	r.asked("1")
	expect.OK(t, r.rdb.HSet(r.ctx, r.k.Run(), "answered", fmt.Sprintf("%d 1 perhaps call", a.Fence)).Err())
	expect.Equal(t, "the decision", expect.Received(t, "the decision", got), decided{session.Deny, nil})
	expect.Equal(t, "decision", r.decided("1"), session.Deny)
	a.reply("ok")
}

// Neither an agent that asks after its turn nor one that leaves a question open disturbs the next
// turn's questions.
func TestQuestionsStayInTheirTurn(t *testing.T) {
	t.Parallel()
	r, s, a := inTurn(t)
	open := a.ask(context.Background(), r, "run make")
	r.asked("1")
	var waiting []<-chan decided
	for range 20 {
		waiting = append(waiting, a.ask(context.Background(), r, "run late"))
	}
	r.say("m2", "again")
	a.reply("ok")
	r.ends("m1", session.StatusDone)
	expect.Equal(t, "decision", r.decided("1"), session.Cancelled)
	b := s.next(t, "m2")
	got := b.ask(b.ctx, r, "run rm")
	expect.Soon(t, "the next turn's question", func() bool { q := r.info().Question; return q != nil && q.Name == "run rm" })
	for range 20 {
		waiting = append(waiting, a.ask(context.Background(), r, "run late"))
	}
	for _, c := range append(waiting, open) {
		if expect.Received(t, "the end of an old question", c).err == nil {
			t.Error("a decision")
		}
	}
	r.command("/approve 1", "Question 1 is no longer open; question 2 is: run rm.")
	r.command("/approve 2", "Approved question 2: run rm.")
	expect.Equal(t, "the decision", expect.Received(t, "the decision", got).Allowed(), true)
	b.reply("ok")
	r.ends("m2", session.StatusDone)
}

// A question is closed when its turn must end, even if the agent takes long to end.
func TestQuestionOfATurnThatIsToEnd(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newStage()
	s.deaf = true
	r.worker(s)
	r.say("m1", "hello")
	a := s.next(t, "m1")
	got := a.ask(a.ctx, r, "run make")
	r.asked("1")
	r.command("/stop", "Stopping the running turn.")
	if expect.Received(t, "the end", got).err == nil {
		t.Error("a decision")
	}
	r.command("/approve", "There is no open question.")
	expect.Equal(t, "decision", r.decided("1"), session.Cancelled)
	a.fail(context.Cause(a.ctx))
	r.ends("m1", session.StatusStopped)
}

// A decision on one turn's question, or a late one, approves nothing that another turn asks: its
// question has another number.
func TestLateDecisionApprovesNothingElse(t *testing.T) {
	t.Parallel()
	r, s, a := inTurn(t)
	got := a.ask(a.ctx, r, "list the files")
	r.asked("1")
	r.say("m2", "again")
	a.reply("ok")
	expect.Received(t, "the question's end", got)
	b := s.next(t, "m2")
	b.ask(b.ctx, r, "delete_production")
	expect.Soon(t, "the next turn's question", func() bool { q := r.info().Question; return q != nil && q.Name == "delete_production" })
	r.command("/approve 1", "Question 1 is no longer open; question 2 is: delete_production.")
	r.command("/approve", "Nothing was decided: question 2 is new, delete_production. Write /approve 2 or /deny 2")
	b.reply("ok")
}

// The entry of a tool has the decision about it, and who decided. A tool without a question has none.
func TestDecisionInTheTranscript(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := agent.Func(func(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
		for _, id := range []string{"c1", "c2"} {
			turn.Emit(agent.Event{Type: session.EventToolStart, Name: "rm", CallID: id})
			if id == "c1" {
				if _, err := turn.Ask(ctx, agent.Question{Name: "rm", CallID: id, Approvers: []string{"ops"}}); err != nil {
					return agent.Result{}, err
				}
			}
			turn.Emit(agent.Event{Type: session.EventToolEnd, CallID: id, Output: []byte(`1`)})
		}
		return agent.Result{Text: "ok"}, nil
	})
	r.worker(a, with(func(c *worker.Config) { c.Approvers = []string{"others"} }))
	r.send(r.key, turnstile.Message{ID: "m", Text: "go"})
	e := r.asked("1")
	expect.List(t, "approvers, of the question first", e.Approvers, "ops")
	_, err := r.client.Session(r.key).As("ops").Decide(r.ctx, "1", session.Allow)
	expect.OK(t, err)
	r.outcomeIn(r.key, "m")
	var got []string
	entries, err := actors.Transcript(r.ctx, r.client.Session(r.key), r.info().TranscriptID)
	expect.OK(t, err)
	for _, e := range entries {
		if e.Tool != nil {
			got = append(got, fmt.Sprintf("%s %s %s", e.Tool.CallID, e.Tool.Decision, e.Tool.By))
		}
	}
	expect.List(t, "tools", got, "c1 allow ops", "c2  ")
}

// A tool that nobody has allowed when a message interrupts the turn has had no effects, and the transcript says so.
func TestToolsThatNobodyAllowed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := agent.Func(func(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
		if turn.Messages[0].Text != "go" {
			return agent.Result{Text: "ok"}, nil
		}
		turn.Emit(agent.Event{Type: session.EventToolStart, Name: "ls", CallID: "c0"})
		var asks sync.WaitGroup
		for _, id := range []string{"c1", "c2"} { // the second one waits for the first
			turn.Emit(agent.Event{Type: session.EventToolStart, Name: "rm", CallID: id})
			asks.Go(func() {
				if _, err := turn.Ask(ctx, agent.Question{Name: "rm", CallID: id}); err == nil {
					t.Error("a decision")
				}
			})
		}
		asks.Wait()
		return agent.Result{}, context.Cause(ctx)
	})
	r.worker(a)
	r.send(r.key, turnstile.Message{ID: "m1", Text: "go"})
	r.asked("1")
	r.send(r.key, turnstile.Message{ID: "m2", Text: "no", Mode: session.ModeInterrupt})
	r.outcomeIn(r.key, "m2")
	var got []string
	entries, err := actors.Transcript(r.ctx, r.client.Session(r.key), r.info().TranscriptID)
	expect.OK(t, err)
	for _, e := range entries {
		if e.Tool != nil {
			got = append(got, strings.TrimSpace(e.Tool.CallID+" "+e.Tool.Error))
		}
	}
	const why = " it was not run: nobody had allowed it when the turn ended"
	expect.List(t, "tools", got, "c0", "c1"+why, "c2"+why)
}

// The next run after a drain reads that a tool whose question was open was not run, and how to ask for it again.
func TestQuestionThatADrainEnds(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	histories := make(chan []session.Entry, 2)
	a := agent.Func(func(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
		if turn.Attempt > 1 || turn.Note != "" {
			histories <- turn.History
			return agent.Result{Text: "ok"}, nil
		}
		turn.Emit(agent.Event{Type: session.EventToolStart, Name: "rm", CallID: "c1"})
		_, err := turn.Ask(ctx, agent.Question{Name: "rm", CallID: "c1"})
		return agent.Result{}, err
	})
	w := r.worker(a, drainTimeout(time.Hour))
	r.say("m1", "go")
	r.asked("1")
	expect.Received(t, "the end of the drain", drain(w))
	r.worker(a)
	var tools []string
	for _, e := range expect.Received(t, "the history", histories) {
		if e.Tool != nil {
			tools = append(tools, e.Tool.CallID+" "+e.Tool.Error)
		}
	}
	expect.List(t, "tools", tools, "c1 it was not run: its worker ended before the user had decided; make the same call again, and the user is asked again")
	r.ends("m1", session.StatusDone)
}
