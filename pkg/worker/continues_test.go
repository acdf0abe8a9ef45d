package worker_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"turnstile"

	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/pkg/worker"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// Two workers die in one turn. Each next one goes on after the last step: with all that stands, without a
// note, and with each message once.
func TestTurnGoesOnAfterItsLastStep(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s, second, third := newStage(), newStage(), newStage()
	r.mortalWorker(continuing{s}, s)
	r.say("m1", "hello")
	a := s.next(t, "m1")
	use := func(a *act, n int64) {
		a.Emit(agent.Event{Type: session.EventUsage, Usage: &session.Usage{InputTokens: n}})
	}
	a.text("I pay ")
	a.text("twice.")
	a.begin(t, spec("a"), agent.StepNew)
	a.begin(t, spec("b"), agent.StepNew) // at the same time
	a.finish(t, spec("a"), ok("1"))
	r.send(r.key, turnstile.Message{ID: "m2", Text: "and this", Mode: session.ModeSteer, Meta: map[string]string{"sender": "bob"}, Attachments: []session.Attachment{{Name: "f", URL: "https://x.example/f"}}})
	a.steer(t, "m2").Accept()
	use(a, 10)
	a.begin(t, spec("c"), agent.StepNew)
	a.finish(t, spec("c"), ok("2"))
	r.say("m3", "too late", session.ModeSteer)
	a.steer(t, "m3").Accept() // and no step after it: it is offered to later runs, too
	a.text("cut off")
	r.awaitJournal("cut off")
	said := func(text string) { // or its events die with the worker
		r.awaitEvent("the text "+text, func(e session.Event) bool { return strings.Contains(e.Text, text) })
	}
	said("cut off")

	kept := []string{"assistant I pay twice.", "tool a 1 " + a.ID, "tool b  " + a.ID, "user and this", "tool c 2 " + a.ID}
	goesOn := func(b *act, run string) {
		t.Helper()
		expect.List(t, "kept in "+run, lines(b.Kept), kept...)
		expect.Equal(t, "note", b.Note, "")
		expect.Equal(t, "messages", len(b.Messages), 1)
		expect.Equal(t, "history", len(b.History), 0)
		if i := slices.IndexFunc(b.Kept, func(e session.Entry) bool { return e.Message == "m2" }); i < 0 || b.Kept[i].Meta["sender"] != "bob" || len(b.Kept[i].Attachments) != 1 {
			t.Errorf("the steer in %+v", b.Kept)
		}
	}
	b := r.inherits(continuing{second}, second)
	goesOn(b, "the second run")
	b.steer(t, "m3")
	b.begin(t, spec("a"), agent.StepDone)
	b.begin(t, spec("b"), agent.StepUnknown)
	b.finish(t, spec("b"), agent.StepEnd{Error: "unknown"})
	b.begin(t, spec("d"), agent.StepNew)
	b.finish(t, spec("d"), ok("3"))
	use(b, 5)
	b.text("That is all.")
	response := agent.StepSpec{Key: "response", Safe: true, Hidden: true}
	b.begin(t, response, agent.StepNew)
	b.finish(t, response, ok("{}"))
	b.text(" Or not?")
	r.awaitJournal("Or not?")
	said("Or not?")

	kept[2] = "tool b unknown " + a.ID
	kept = append(kept, "tool d 3 "+b.ID, "assistant That is all.")
	c := r.inherits(continuing{third}, third)
	goesOn(c, "the third run")
	c.steer(t, "m3") // not taken
	c.begin(t, response, agent.StepDone)
	c.reply("")
	o := r.ends("m1", session.StatusDone)
	expect.Equal(t, "reply", o.Reply, "That is all.")
	expect.Equal(t, "turn of the steer", r.ends("m2", session.StatusDone).Turn, c.ID)
	m3 := expect.Received(t, "the turn of m3", third.acts)
	expect.Equal(t, "message", m3.Messages[0].ID, "m3")
	m3.reply("ok")
	r.ends("m3", session.StatusDone)
	entries, err := actors.Transcript(r.ctx, r.client.Session(r.key), c.TranscriptID)
	expect.OK(t, err)
	expect.List(t, "transcript", lines(entries), append(append([]string{"user hello"}, kept...), "user too late", "assistant ok")...)
	expect.Equal(t, "tokens", entries[len(kept)].Usage.InputTokens, 15)
	if entries[0].At.After(entries[1].At.Time) {
		t.Errorf("the message is of %v, and the first text of %v", entries[0].At, entries[1].At)
	}
	started := map[string]int{} // the tools in events
	for _, e := range r.events(r.key) {
		if e.Type == session.EventToolStart {
			started[e.CallID]++
		}
	}
	expect.Equal(t, "starts", fmt.Sprint(started), "map[a:1 b:1 c:1 d:1]")
}

// What an interrupted run had said before any step is history in every later run, so that the model's
// requests stay the same.
func TestRecapStaysHistory(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newStage()
	r.mortalWorker(continuing{s}, s)
	r.say("m1", "hello")
	s.next(t, "m1").text("half")
	r.awaitJournal("half")
	var history []string
	for run := range 3 {
		next := newStage()
		b := r.inherits(continuing{next}, next)
		if run == 0 {
			history = brief(b.History)
			expect.List(t, "history", history, "user hello", "assistant half (interrupted)")
		}
		expect.List(t, "history", brief(b.History), history...)
		expect.Equal(t, "kept", len(b.Kept), run)
		b.begin(t, spec(fmt.Sprint(run)), agent.StepNew)
		b.finish(t, spec(fmt.Sprint(run)), ok("1"))
		if run == 2 {
			b.reply("done")
		}
	}
	r.ends("m1", session.StatusDone)
	expect.List(t, "transcript", r.transcript(r.key), "user hello", "assistant half (interrupted)", "tool pay", "tool pay", "tool pay", "assistant done")
}

// A turn with steps whose worker dies after an interrupt was requested ends with all that it has done.
func TestInterruptedStepsOfADeadWorker(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s, next := newStage(), newStage()
	r.mortalWorker(continuing{s}, s)
	r.say("m1", "hello")
	a := s.next(t, "m1")
	a.begin(t, spec("a"), agent.StepNew)
	a.finish(t, spec("a"), ok("1"))
	a.text("half")
	r.awaitJournal("half")
	r.say("m2", "now", session.ModeInterrupt)
	r.worker(continuing{next}, sentinelTTL(time.Minute))
	expect.OK(t, r.rdb.Del(r.ctx, r.k.Sentinel()).Err())
	r.wake()
	b := next.next(t, "m2")
	r.ends("m1", session.StatusInterrupted)
	expect.List(t, "history", lines(b.History), "user hello", "tool a 1 "+a.ID, "assistant half")
	expect.Equal(t, "steps", len(b.Steps)+len(b.Kept), 0)
	b.reply("ok")
	r.ends("m2", session.StatusDone)
}

// /new with another agent ends a turn that waits without a worker; one that runs goes on with its own agent, on any
// worker that has it. The other agent gets nothing of it.
func TestStepsOfAnotherAgent(t *testing.T) {
	t.Parallel()
	for name, running := range map[string]bool{"between runs": false, "while it runs": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.key = "a:a:" + r.key
			r.k = rediskey.For(r.key)
			s, again, next := newStage(), newStage(), newStage()
			agents := func(a agent.Agent) change {
				return with(func(c *worker.Config) {
					c.Agents = []worker.NamedAgent{{Name: "one", Sessions: []string{"a:a:*"}, Agent: a}, {Name: "other", Sessions: []string{"a:*"}, Agent: continuing{next}}}
				})
			}
			r.sendAs("m1", "one")
			w := r.worker(nil, agents(continuing{s}), drainTimeout(0), slots(1), checkpointEvery(time.Millisecond))
			a := s.next(t, "m1")
			a.text("secret ")
			a.begin(t, spec("a"), agent.StepNew)
			a.finish(t, spec("a"), ok("1"))
			if !running {
				expect.Received(t, "the end of the drain", drain(w))
			}
			r.newTranscript("other")
			if running {
				expect.Received(t, "the end of the drain", drain(w))
			}
			r.worker(nil, agents(continuing{again}))
			if running {
				b := again.next(t, "m1")
				b.begin(t, spec("a"), agent.StepDone)
				b.reply("done")
				r.ends("m1", session.StatusDone)
			} else {
				r.ends("m1", session.StatusInterrupted)
			}
			r.say("m2", "hello")
			c := next.next(t, "m2")
			if len(c.Steps)+len(c.Kept)+len(c.History) > 0 || c.Note != "" {
				t.Errorf("the other agent got %+v", c.Turn)
			}
			c.reply("ok")
			r.ends("m2", session.StatusDone)
		})
	}
}

// paying is a Go agent with three steps, which write what they do into the file that the message names. With
// a point it kills its process there, in the first run.
type paying struct{}

func (paying) Run(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
	_, words, _ := strings.Cut(turn.Messages[0].Text, " ")
	point, file, _ := strings.Cut(words, " ")
	reach := func(at string) {
		if at == point && !turn.Redelivered {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	var results []string
	for i := range 3 {
		step := agent.StepSpec{Key: fmt.Sprint("pay:", i), Name: "pay", Input: json.RawMessage(fmt.Sprint(i))}
		result, err := agent.Step(ctx, turn, step, func(_ context.Context, key string) (string, error) {
			f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
			if err != nil {
				return "", err
			}
			defer f.Close()
			_, err = fmt.Fprintln(f, i, key, turn.ID)
			reach(fmt.Sprint("in:", i))
			return fmt.Sprint("paid ", i), err
		})
		if errors.Is(err, agent.ErrStepUnknown) {
			result, err = "unknown", nil
		}
		if err != nil {
			return agent.Result{}, err
		}
		results = append(results, result)
		reach(fmt.Sprint("after:", i))
	}
	return agent.Result{Text: strings.Join(results, ", ")}, nil
}

// After kill -9 each step has run once, in one of the two processes.
func TestKilledBetweenSteps(t *testing.T) {
	t.Parallel()
	for point, want := range map[string]string{
		"in:0":    "unknown, paid 1, paid 2",
		"after:1": "paid 0, paid 1, paid 2",
		"in:2":    "paid 0, paid 1, unknown",
		"after:2": "paid 0, paid 1, paid 2",
	} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			file := filepath.Join(t.TempDir(), "paid")
			one := r.process("one", job{TTL: expect.Lease(time.Second)})
			r.say("m1", "pay "+point+" "+file)
			<-one.gone()
			r.worker(paying{}, sentinelTTL(heir.TTL), with(func(c *worker.Config) { c.RecoveryRate = 1000 }))
			expect.Equal(t, "reply", r.ends("m1", session.StatusDone).Reply, want)
			text, err := os.ReadFile(file)
			expect.OK(t, err)
			keys, runs := map[string]bool{}, map[string]string{}
			for i, line := range slices.Collect(strings.Lines(string(text))) {
				var n int
				var key, run string
				_, err := fmt.Sscan(line, &n, &key, &run)
				expect.OK(t, err)
				expect.Equal(t, "step", n, i)
				keys[key], runs[fmt.Sprint(i)] = true, run
			}
			expect.Equal(t, "keys", len(keys), 3)
			entries, err := actors.Transcript(r.ctx, r.client.Session(r.key), r.info().TranscriptID)
			expect.OK(t, err)
			last := r.ends("m1", session.StatusDone).Turn
			for _, e := range entries {
				if e.Tool != nil && cmp.Or(e.Tool.Run, last) != runs[string(e.Tool.Input)] {
					t.Errorf("%+v is of the run %s", e.Tool, runs[string(e.Tool.Input)])
				}
			}
		})
	}
}

// All runs of a turn with steps together have AGENT_TIMEOUT.
func TestTimeoutOfAllRuns(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s, next := newStage(), newStage()
	r.mortalWorker(s, s)
	r.say("m1", "hello")
	a := s.next(t, "m1")
	a.begin(t, spec("a"), agent.StepNew)
	a.finish(t, spec("a"), ok("1"))
	journal := rediskey.For(r.key).Journal()
	if ran, err := r.rdb.HGet(r.ctx, journal, "ran").Int64(); err != nil || ran < 0 || ran > time.Hour.Milliseconds() {
		t.Errorf("it has run for %d ms: %v", ran, err)
	}
	expect.OK(t, r.rdb.HSet(r.ctx, journal, "ran", (24*time.Hour).Milliseconds()).Err())
	b := r.inherits(next, next)
	<-b.ctx.Done()
	b.fail(b.ctx.Err())
	expect.Equal(t, "code", r.ends("m1", session.StatusFailed).Code, session.CodeTimeout)
}
