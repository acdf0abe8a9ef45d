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

	"github.com/redis/go-redis/v9"

	"turnstile/pkg/admin"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/pkg/worker"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// mortalWorker starts a worker that takes one session and, like a dead one, no other after it was replaced. a is
// the stage's agent.
func (r *rig) mortalWorker(a agent.Agent, s *stage, changes ...change) {
	r.Helper()
	s.deaf, s.quit = true, make(chan struct{})
	r.worker(a, append([]change{sentinelTTL(time.Minute), slots(1), checkpointEvery(time.Millisecond)}, changes...)...)
	r.Cleanup(func() { close(s.quit) })
}

// inherits starts a worker that takes the session over, as from a dead one. It returns the turn of m1.
func (r *rig) inherits(a agent.Agent, s *stage) *act {
	r.Helper()
	r.mortalWorker(a, s)
	expect.OK(r, r.rdb.Del(r.ctx, r.k.Sentinel()).Err())
	r.wake()
	return s.next(r, "m1")
}

func spec(key string) agent.StepSpec {
	return agent.StepSpec{Key: key, Name: "pay", CallID: key, Input: json.RawMessage(fmt.Sprintf("{%q: 1}", key))}
}

// begin starts a step that must be in a state.
func (a *act) begin(t testing.TB, s agent.StepSpec, state agent.StepState) agent.StepRecord {
	t.Helper()
	record, err := a.StartStep(a.ctx, s)
	expect.OK(t, err)
	expect.Equal(t, "state of "+s.Key, record.State, state)
	return record
}

func (a *act) finish(t testing.TB, s agent.StepSpec, e agent.StepEnd) {
	t.Helper()
	expect.OK(t, a.EndStep(a.ctx, s, e))
}

func ok(output string) agent.StepEnd { return agent.StepEnd{Output: json.RawMessage(output)} }

// lines are entries with the results and runs of tools.
func lines(entries []session.Entry) (lines []string) {
	for _, e := range entries {
		line := string(e.Role) + " " + e.Text
		if u := e.Tool; u != nil {
			line += fmt.Sprint(u.CallID, " ", string(u.Output), u.Error, " ", u.Run)
		}
		lines = append(lines, strings.TrimSpace(line))
	}
	return lines
}

// A later attempt fails before it comes to what an earlier one has done: the transcript has it all the same.
func TestStepsOfAnEarlierAttemptAreRemembered(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newStage()
	r.worker(s)
	r.say("m1", "hello")
	a := s.next(t, "m1")
	a.begin(t, spec("a"), agent.StepNew)
	a.finish(t, spec("a"), ok("1"))
	a.begin(t, spec("b"), agent.StepNew)
	a.fail(agent.Retryable(errors.New("flaky")))
	b := s.next(t, "m1")
	b.text("I begin")
	b.fail(errors.New("no"))
	r.ends("m1", session.StatusFailed)
	entries, err := actors.Transcript(r.ctx, r.client.Session(r.key), b.TranscriptID)
	expect.OK(t, err)
	expect.List(t, "transcript", lines(entries), "user hello", "tool a 1 "+a.ID, "tool b  "+a.ID, "assistant I begin")
}

// A worker dies after its second step, with the third started. The next one runs neither, and its agent
// learns what is known of each. The keys are the same in both runs.
func TestStepsOfADeadWorker(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s, next := newStage(), newStage()
	r.mortalWorker(s, s)
	r.say("m1", "hello")
	a := s.next(t, "m1")
	a.text("I pay ")
	var first []agent.StepRecord
	twice := spec("a")
	twice.Key, twice.CallID = "again", "again" // the same call
	for _, step := range []agent.StepSpec{spec("a"), twice, spec("b"), spec("c")} {
		record := a.begin(t, step, agent.StepNew)
		expect.Equal(t, "run of a new step", record.Turn, a.ID)
		for _, other := range first {
			if record.IdempotencyKey == "" || record.IdempotencyKey == other.IdempotencyKey {
				t.Errorf("keys %+v, %+v", record, other)
			}
		}
		if first = append(first, record); step.Key != "c" {
			a.finish(t, step, ok(fmt.Sprintf("{%q: \"<&\u2028>\"}", step.Key)))
		}
	}
	b := r.inherits(next, next)
	expect.Equal(t, "steps", len(b.Steps), 3)
	expect.Equal(t, "kept", len(b.Kept), 0)
	expect.Equal(t, "a note", b.Note != "", true)
	for i, step := range []agent.StepSpec{twice, spec("a"), spec("b"), spec("c")} { // in another order, and never asked
		step.Permit = func(context.Context) error { t.Errorf("%s asks", step.Key); return nil }
		state := agent.StepDone
		if step.Key == "c" {
			state = agent.StepUnknown
		}
		step.Input = append(step.Input, '\n') // of no meaning
		record := b.begin(t, step, state)
		expect.Equal(t, "run", record.Turn, a.ID)
		expect.Equal(t, "key", record.IdempotencyKey, first[[]int{1, 0, 2, 3}[i]].IdempotencyKey)
		if state == agent.StepDone {
			expect.Equal(t, "output", string(record.Output), fmt.Sprintf("{%q:\"<&\u2028>\"}", step.Key))
		}
	}
	b.finish(t, spec("c"), agent.StepEnd{Error: "unknown"})
	b.reply("done")
	r.ends("m1", session.StatusDone)
	entries, err := actors.Transcript(r.ctx, r.client.Session(r.key), b.TranscriptID)
	expect.OK(t, err)
	expect.List(t, "transcript", lines(entries), "user hello",
		`tool again {"again":"<&`+"\u2028"+`>"} `+a.ID, `tool a {"a":"<&`+"\u2028"+`>"} `+a.ID, `tool b {"b":"<&`+"\u2028"+`>"} `+a.ID,
		"tool c unknown "+a.ID, "assistant done")
	expect.List(t, "notices", r.notices(), "pay was started before an interruption, and may have happened: please check.")
}

// A step of which nobody knows the end is named once, and before its end is stored, though a worker that comes to it
// dies there. Another step with the same name is named, too.
func TestUnknownStepIsNamedOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newStage()
	r.mortalWorker(s, s)
	r.say("m1", "hello")
	a := s.next(t, "m1")
	a.begin(t, spec("a"), agent.StepNew)
	a.begin(t, spec("b"), agent.StepNew)
	for range 2 { // a third death without a step's end would suspend the session
		next := newStage()
		a = r.inherits(next, next)
		a.begin(t, spec("a"), agent.StepUnknown)
		expect.Equal(t, "notices", len(r.notices()), 1)
	}
	a.finish(t, spec("a"), agent.StepEnd{Error: "unknown"})
	a.begin(t, spec("b"), agent.StepUnknown)
	expect.Equal(t, "notices", len(r.notices()), 2)
	a.finish(t, spec("b"), agent.StepEnd{Error: "unknown"})
	a.reply("done")
	r.ends("m1", session.StatusDone)
	expect.Equal(t, "notices", len(r.notices()), 2)
}

// The ways to run again: a step without effects, one whose receiver knows its key, and one that failed for now.
func TestStepsThatRunAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s, next := newStage(), newStage()
	r.mortalWorker(s, s)
	r.say("m1", "hello")
	a := s.next(t, "m1")
	safe, again, failed, denied, hidden := spec("safe"), spec("again"), spec("failed"), spec("denied"), spec("hidden")
	safe.Safe, again.RunAgain, hidden.Hidden, hidden.Safe = true, true, true, true
	no := errors.New("denied")
	denied.Permit = func(context.Context) error { return no }
	steps := []agent.StepSpec{again, safe, failed}
	keys := map[string]string{}
	for _, step := range steps {
		keys[step.Key] = a.begin(t, step, agent.StepNew).IdempotencyKey
	}
	a.begin(t, hidden, agent.StepNew)
	if _, err := a.StartStep(a.ctx, denied); !errors.Is(err, no) {
		t.Errorf("without permission: %v", err)
	}
	a.finish(t, denied, agent.StepEnd{Error: "denied"})
	a.finish(t, failed, agent.StepEnd{Error: "later", Again: true})
	b := r.inherits(next, next)
	expect.Equal(t, "run of an unknown step", b.begin(t, again, agent.StepUnknown).Turn, a.ID)
	for _, step := range []agent.StepSpec{safe, failed} {
		record := b.begin(t, step, agent.StepNew)
		expect.Equal(t, "run of "+step.Key, record.Turn, b.ID)
		expect.Equal(t, "key of "+step.Key, record.IdempotencyKey, keys[step.Key])
	}
	expect.Equal(t, "error", b.begin(t, denied, agent.StepDone).Error, "denied")
	b.begin(t, hidden, agent.StepNew)
	for _, step := range steps {
		b.finish(t, step, ok("1"))
	}
	journal, _ := r.journal()
	expect.List(t, "stored", lines(journal.Entries), "user hello", "tool again 1", "tool safe 1", "tool failed 1", "tool denied denied "+a.ID)
	b.reply("done")
	r.ends("m1", session.StatusDone)
	for _, e := range r.events(r.key) {
		if e.Type == session.EventNotice {
			t.Errorf("a notice: %s", e.Text)
		}
	}
}

func TestWrongSteps(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s, next := newStage(), newStage()
	r.mortalWorker(s, s)
	r.say("m1", "hello")
	a := s.next(t, "m1")
	wrong := func(what string, err, kind error, words ...string) {
		t.Helper()
		if !errors.Is(err, kind) {
			t.Errorf("%s: %v", what, err)
		}
		for _, w := range words {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %v does not say %q", what, err, w)
			}
		}
	}
	start := func(a *act, s agent.StepSpec) error { _, err := a.StartStep(a.ctx, s); return err }
	a.begin(t, spec("a"), agent.StepNew)
	wrong("twice", start(a, spec("a")), agent.ErrStep, `"a"`, "twice")
	a.finish(t, spec("a"), ok("1"))
	wrong("twice, after its end", start(a, spec("a")), agent.ErrStep)
	wrong("a second end", a.EndStep(a.ctx, spec("a"), ok("2")), agent.ErrStep)
	wrong("an end without a start", a.EndStep(a.ctx, spec("b"), ok("2")), agent.ErrStep)
	for _, key := range []string{"", "a\nb", "\xff", strings.Repeat("x", 513)} {
		wrong("key "+key, start(a, agent.StepSpec{Key: key}), agent.ErrStep)
	}
	wide := agent.StepSpec{Key: "wide", Input: json.RawMessage(`"` + strings.Repeat("x", 1<<20) + `"`)}
	wrong("a large input", start(a, wide), agent.ErrJournalFull)
	a.begin(t, spec("large"), agent.StepNew)
	wrong("a large result", a.EndStep(a.ctx, spec("large"), ok(`"`+strings.Repeat("x", 1<<20)+`"`)), agent.ErrJournalFull)
	over, cancel := context.WithCancelCause(a.ctx)
	cancel(errors.New("over"))
	if _, err := a.StartStep(over, spec("late")); err == nil || err.Error() != "over" {
		t.Errorf("a start after the end: %v", err)
	}

	b := r.inherits(next, next)
	changed := spec("a")
	changed.Input = json.RawMessage(`{"other": 2}`)
	wrong("another input", start(b, changed), agent.ErrStep, `pay({"other":2})`, `pay({"a":1})`)
	expect.Equal(t, "output", string(b.begin(t, spec("a"), agent.StepDone).Output), "1")
	if record := b.begin(t, spec("large"), agent.StepDone); !strings.Contains(record.Error, "too large") {
		t.Errorf("the large one: %+v", record)
	}
	for i := range 10 {
		step := agent.StepSpec{Key: fmt.Sprint("full", i), Hidden: true}
		if err := start(b, step); err != nil {
			wrong("a full journal", err, agent.ErrJournalFull)
			break
		}
		b.finish(t, step, ok(`"`+strings.Repeat("x", 1<<20-2)+`"`))
		if i == 9 {
			t.Error("the journal takes everything")
		}
	}
	b.reply("done")
	r.ends("m1", session.StatusDone)
	wrong("after the turn", b.EndStep(r.ctx, agent.StepSpec{Key: "full9"}, ok("1")), agent.ErrStep)
	if err := start(b, spec("after")); err == nil {
		t.Error("a step starts after its turn")
	}
	expect.Equal(t, "journals", r.rdb.Exists(r.ctx, r.k.Journal()).Val(), 0)
}

// /resume and /retry repeat a turn with the same keys: its receiver has had the effects.
func TestKeysOfRepeatedTurns(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newStage()
	r.worker(s)
	r.say("m1", "hello")
	a := s.next(t, "m1")
	key := a.begin(t, spec("a"), agent.StepNew).IdempotencyKey
	a.finish(t, spec("a"), ok("1"))
	a.fail(errors.New("no"))
	r.ends("m1", session.StatusFailed)
	expect.Soon(t, "the session to be free", func() bool { return r.token() == "" })
	_, err := admin.NewClient(r.rdb).Session(r.key).Rerun(r.ctx, "m1")
	expect.OK(t, err)
	b := s.next(t, "m1")
	expect.Equal(t, "steps", len(b.Steps), 0)
	expect.Equal(t, "key", b.begin(t, spec("a"), agent.StepNew).IdempotencyKey, key)
	b.finish(t, spec("a"), ok("1"))
	b.reply("poor")
	expect.Soon(t, "the session to be free", func() bool { return r.token() == "" })
	r.command("/retry", "Running again: hello")
	c := expect.Received(t, "the turn", s.acts)
	expect.Equal(t, "key after /retry", c.begin(t, spec("a"), agent.StepNew).IdempotencyKey, key)
	c.finish(t, spec("a"), ok("1"))
	c.reply("good")
	r.ends(c.Messages[0].ID, session.StatusDone)
}

// A drain interrupts a step. If it ends well within its grace, it has ended.
func TestDrainInTheMiddleOfAStep(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s, next := newStage(), newStage()
	s.deaf = true
	w := r.worker(s, drainTimeout(0), slots(1))
	r.say("m1", "hello")
	a := s.next(t, "m1")
	a.begin(t, spec("a"), agent.StepNew)
	a.begin(t, spec("b"), agent.StepNew)
	drained := drain(w)
	<-a.ctx.Done()
	a.finish(t, spec("a"), ok("1"))
	if _, err := a.StartStep(a.ctx, spec("c")); err == nil {
		t.Error("a step starts in a drain")
	}
	a.fail(context.Cause(a.ctx))
	expect.Received(t, "the end of the drain", drained)
	r.worker(next)
	b := next.next(t, "m1")
	b.begin(t, spec("a"), agent.StepDone)
	b.begin(t, spec("b"), agent.StepUnknown)
	b.finish(t, spec("b"), agent.StepEnd{Error: "unknown"})
	b.begin(t, spec("c"), agent.StepNew)
	b.finish(t, spec("c"), ok("1"))
	b.reply("done")
	r.ends("m1", session.StatusDone)
}

// A failed attempt keeps its steps, and loses what was said after them.
func TestRetryKeepsSteps(t *testing.T) {
	t.Parallel()
	for name, continues := range map[string]bool{"continues": true, "begins again": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			s := newStage()
			var a agent.Agent = s
			if continues {
				a = continuing{s}
			}
			r.worker(a, checkpointEvery(time.Millisecond), with(func(c *worker.Config) { c.MaxAttempts = 3 }))
			r.say("m1", "hello")
			var first string
			for attempt := 1; attempt <= 3; attempt++ {
				act := s.next(t, "m1")
				expect.Equal(t, "attempt", act.Attempt, attempt)
				if attempt == 1 {
					first = act.ID
					act.begin(t, spec("a"), agent.StepNew)
					act.finish(t, spec("a"), ok("1"))
				} else {
					act.begin(t, spec("a"), agent.StepDone)
				}
				if want := []string{"tool a 1 " + first}; continues && attempt > 1 {
					expect.List(t, "kept", lines(act.Kept), want...)
				} else {
					expect.Equal(t, "kept", len(act.Kept), 0)
				}
				act.text(fmt.Sprint("unfinished ", attempt))
				r.awaitJournal(fmt.Sprint("unfinished ", attempt))
				act.fail(agent.Retryable(errors.New("flaky")))
			}
			r.ends("m1", session.StatusFailed)
		})
	}
}

// An interruption counts unless its run has ended a step.
func TestStepsAreProgress(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.say("m1", "hello")
	interruptions := func(n int, do func(a *act)) {
		t.Helper()
		s := newStage()
		w := r.worker(s, drainTimeout(0), slots(1))
		do(s.next(t, "m1"))
		expect.Received(t, "the end of the drain", drain(w))
		expect.Equal(t, "interruptions", r.resumeRecord(r.key).Interruptions, n)
	}
	for i := range 4 {
		interruptions(0, func(a *act) {
			a.begin(t, spec(fmt.Sprint(i)), agent.StepNew)
			a.finish(t, spec(fmt.Sprint(i)), ok("1"))
		})
	}
	interruptions(1, func(a *act) { a.begin(t, spec("started"), agent.StepNew) })
	interruptions(2, func(a *act) { a.text("x") })
	interruptions(3, func(a *act) { a.begin(t, spec("0"), agent.StepDone) })
	s := newStage()
	r.worker(s)
	expect.Equal(t, "steps", len(s.next(t, "m1").Steps), 4)
}

// Steps at once share writes, and none is lost, though a write fails for a while.
func TestParallelSteps(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s, next := newStage(), newStage()
	var f redistest.Faults
	writes := watch(&f, checkpointing)
	r.mortalWorker(s, s, faulty(&f), checkpointEvery(time.Hour))
	r.say("m1", "hello")
	a := s.next(t, "m1")
	const n = 50
	gate := f.Gate(checkpointing)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			step := spec(fmt.Sprint(i))
			if _, err := a.StartStep(a.ctx, step); err != nil {
				t.Error(err)
			}
			a.text(".")
			if err := a.EndStep(a.ctx, step, ok(fmt.Sprint(i))); err != nil {
				t.Error(err)
			}
		})
	}
	expect.Received(t, "the first write", gate.Arrived())
	f.LoseReply(func(cmd redis.Cmder) bool { return checkpointing(cmd) }, 1)
	gate.Release()
	all.Wait()
	if len(writes) > n {
		t.Errorf("%d writes of %d starts and ends", len(writes), n)
	}
	b := r.inherits(continuing{next}, next)
	expect.Equal(t, "steps", len(b.Steps), n)
	tools := 0
	for _, e := range b.Kept {
		if e.Tool != nil {
			expect.Equal(t, "output of "+e.Tool.CallID, string(e.Tool.Output), e.Tool.CallID)
			tools++
		}
	}
	expect.Equal(t, "tools", tools, n)
	b.reply("done")
	r.ends("m1", session.StatusDone)
}
