package worker_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/pkg/worker"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// Another worker resumes the turn at once, with the note and all entries so far. In the end the
// transcript has the user's message once, and each interruption at its place.
func TestResumedTurnGoesOn(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	before := newStage()
	w := r.worker(before)
	r.say("m0", "hi")
	before.next(t, "m0").reply("hi yourself")
	r.ends("m0", session.StatusDone)
	r.drainAtOnce(w)

	old := []string{"user hi", "assistant hi yourself"}
	equalAll := func(what string, got []string, more ...string) {
		t.Helper()
		expect.List(t, what, got, append(append([]string{}, old...), more...)...)
	}
	s := newStage()
	w = r.worker(s, drainTimeout(0), slots(1))
	r.say("m1", "count")
	a := s.next(t, "m1")
	equalAll("history", brief(a.History))
	expect.Equal(t, "note", a.Note, "")
	a.text("one, ")
	a.toolStart("1")
	a.toolEnd("1")
	a.text("two, ")
	a.toolStart("2")
	next := newStage()
	r.worker(next, slots(1))
	expect.Received(t, "the end of the drain", drainFor(w, worker.ReasonRestart))

	done := []string{"user count", "assistant one, ", "tool search", "assistant two, ", "tool search (interrupted)"}
	b := next.next(t, "m1")
	equalAll("history of the next worker", brief(b.History), done...)
	if !strings.Contains(b.Note, "a gateway restart") || b.Messages[0].Text != "count" {
		t.Errorf("note %q, text %q", b.Note, b.Messages[0].Text)
	}
	expect.Equal(t, "redelivered", b.Redelivered, true)
	expect.Equal(t, "a tool without a result", b.History[6].Tool.Output == nil, true)
	expect.Equal(t, "whose entries they are", b.History[3].Turn, a.ID)
	b.text("three")
	b.reply("three, done")
	r.ends("m1", session.StatusDone)
	equalAll("transcript", r.transcript(r.key), append(done, "assistant three, done")...)
	entries, err := actors.Transcript(r.ctx, r.client.Session(r.key), b.TranscriptID)
	expect.OK(t, err)
	expect.Equal(t, "whose the last entry is", entries[len(entries)-1].Turn, b.ID)
	for _, line := range r.transcript(r.key) {
		if strings.Contains(line, "System note") {
			t.Errorf("the note was stored: %q", line)
		}
	}
}

// A turn that is interrupted again before its agent has done anything more loses no entries.
func TestInterruptedTwice(t *testing.T) {
	t.Parallel()
	for name, texts := range map[string][]string{"with nothing new": nil, "with more": {"b"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.say("m1", "hello")
			r.interruptTurn("m1", worker.ReasonShutdown, "a")
			r.interruptTurn("m1", worker.ReasonShutdown, texts...)
			want := []string{"user hello", "assistant a (interrupted)"}
			if texts != nil {
				want = append(want, "assistant b (interrupted)")
			}
			s := newStage()
			r.worker(s)
			c := s.next(t, "m1")
			expect.List(t, "history", brief(c.History), want...)
			c.reply("c")
			r.ends("m1", session.StatusDone)
			expect.List(t, "transcript", r.transcript(r.key), append(want, "assistant c")...)
		})
	}
}

// An agent without a start phase gets the note, too.
func TestImmediateAgentGetsTheNote(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newStage()
	w := r.worker(immediate{s.Run}, drainTimeout(0), slots(1))
	r.say("m1", "hello")
	s.next(t, "m1").text("half")
	expect.Received(t, "the end of the drain", drain(w))
	r.worker(immediate{s.Run})
	a := s.next(t, "m1")
	expect.List(t, "history", brief(a.History), "user hello", "assistant half (interrupted)")
	if !strings.Contains(a.Note, "a gateway shutdown") {
		t.Errorf("note %q", a.Note)
	}
	a.reply("rest")
	r.ends("m1", session.StatusDone)
	expect.List(t, "transcript", r.transcript(r.key), "user hello", "assistant half (interrupted)", "assistant rest")
}

// An old mark keeps the session and the entries, but adds no note.
func TestResumeFreshness(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		limit, age time.Duration
		note       bool
	}{
		"fresh":            {time.Hour, 59 * time.Minute, true},
		"too old":          {time.Hour, 61 * time.Minute, false},
		"any age will do":  {1001 * time.Hour, 1000 * time.Hour, true},
		"of no known time": {time.Hour, -1, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.say("m1", "hello")
			a := r.interruptTurn("m1", worker.ReasonShutdown, "half")
			marked := r.rdb.Time(r.ctx).Val().Add(-c.age).UnixMilli()
			if c.age < 0 {
				expect.OK(t, r.rdb.HSet(r.ctx, r.k.Resume(), "marked_at", "yesterday").Err())
			} else {
				expect.OK(t, r.rdb.HSet(r.ctx, r.k.Resume(), "marked_at", marked).Err())
			}
			s := newStage()
			r.worker(s, with(func(o *worker.Config) { o.ResumeFreshness(c.limit) }))
			b := s.next(t, "m1")
			expect.Equal(t, "session id", b.TranscriptID, a.TranscriptID)
			expect.List(t, "history", brief(b.History), "user hello", "assistant half (interrupted)")
			expect.Equal(t, "a note", b.Note != "", c.note)
			b.reply("ok")
			r.ends("m1", session.StatusDone)
			r.unmarked(r.key, "after the turn")
		})
	}
}

// Checkpoints that cannot be read, and one that is larger than any message.
func TestStrangeJournals(t *testing.T) {
	t.Parallel()
	for name, fields := range map[string][]string{
		"no numbers":       {"lead", "x", "n", "", "closed", "1.5"},
		"negative numbers": {"lead", "-1", "n", "-1", "closed", "-1"},
		"large numbers":    {"lead", "1000000000000", "n", "1000000000000", "closed", "1000000000000"},
		"no entries":       {"n", "0"},
		"a newer version":  {"v", "2"},
		"garbage":          {"e:0", "{", "e:1", "7", "ids", "{", "usage", "[]", "closed", "2", "s:a", "no JSON", "s:", "[]"},
		"of another agent": {"agent", "other", "closed", "2", "s:a", `{"state":"ended","name":"a"}`},
		"another state":    {"closed", "1", "s:a", `{"state":"parked","name":"a"}`},
	} {
		for _, continues := range []bool{false, true} {
			t.Run(fmt.Sprint("journal with ", name, " ", continues), func(t *testing.T) {
				t.Parallel()
				r := newRig(t)
				r.say("m1", "hello")
				r.dies("half")
				expect.OK(t, r.rdb.HSet(r.ctx, r.k.Journal(), fields).Err())
				if s := newStage(); continues {
					r.endsSomehow(s, continuing{s})
				} else {
					r.endsSomehow(s)
				}
			})
		}
	}
	t.Run("large", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		output, err := json.Marshal(strings.Repeat("<0123456789abc>\n", 2<<16)) // 2 MiB
		expect.OK(t, err)
		s := newStage()
		w := r.worker(s, drainTimeout(0), slots(1), checkpointEvery(10*time.Millisecond))
		r.say("m1", "hello")
		a := s.next(t, "m1")
		a.toolStart("1")
		a.Emit(agent.Event{Type: session.EventToolEnd, CallID: "1", Output: output})
		r.awaitJournal(`"call_id":"1"`)
		expect.Received(t, "the end of the drain", drain(w))
		next := newStage()
		r.worker(next)
		b := next.next(t, "m1")
		if len(b.History) != 2 || b.History[1].Tool == nil || string(b.History[1].Tool.Output) != string(output) {
			t.Errorf("the next worker's history has %d entries, and not that output", len(b.History))
		}
		b.reply("ok")
		r.ends("m1", session.StatusDone)
	})
}

// endsSomehow runs m1, of which something strange is stored. a is the stage's agent, if it is not the stage.
func (r *rig) endsSomehow(s *stage, a ...agent.Agent) {
	r.Helper()
	r.worker(append(a, s)[0])
	act := s.next(r, "m1")
	for _, e := range act.History {
		if e.Role == session.RoleTool || e.Role == session.RoleUser && e.Text != "hello" {
			r.Errorf("history %+v", act.History)
		}
	}
	expect.Equal(r, "messages", len(act.Messages), 1)
	record, err := act.StartStep(act.ctx, agent.StepSpec{Key: "a"})
	expect.OK(r, err)
	if record.State != agent.StepDone {
		expect.OK(r, act.EndStep(act.ctx, agent.StepSpec{Key: "a"}, agent.StepEnd{Output: json.RawMessage("1")}))
	}
	act.reply("ok")
	r.ends("m1", session.StatusDone)
	lines := r.transcript(r.key)
	expect.Equal(r, "the decision", lines[len(lines)-1], "assistant ok")
	expect.Equal(r, "checkpoints left", r.rdb.Exists(r.ctx, r.k.Journal()).Val(), 0)
}

// The next attempt of an agent without steps begins anew, and sees what the failed one has done.
func TestRetryBeginsAnew(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newStage()
	r.worker(s, with(func(o *worker.Config) { o.CheckpointInterval(time.Millisecond) }))
	r.say("m1", "hello")
	a := s.next(t, "m1")
	a.text("half a reply")
	r.awaitJournal("half a reply")
	a.fail(agent.Retryable(errors.New("flaky")))
	b := s.next(t, "m1")
	expect.Equal(t, "attempt", b.Attempt, 2)
	expect.List(t, "history", brief(b.History), "user hello", "assistant half a reply (interrupted)")
	b.reply("whole")
	r.ends("m1", session.StatusDone)
	expect.List(t, "transcript", r.transcript(r.key), "user hello", "assistant half a reply (interrupted)", "assistant whole")
}

// The entries of an interrupted run survive a failed attempt to resume it.
func TestRetryResumesAnInterruptedRun(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newStage()
	w := r.worker(s)
	r.say("m1", "hello")
	a := s.next(t, "m1")
	a.text("half")
	w.Drain(ended(), worker.ReasonRestart)
	r.worker(s, with(func(o *worker.Config) { o.CheckpointInterval(time.Millisecond) }))
	b := s.next(t, "m1")
	b.text("failed")
	r.awaitJournal("failed")
	b.fail(agent.Retryable(errors.New("flaky")))
	c := s.next(t, "m1")
	expect.Equal(t, "attempt", c.Attempt, 2)
	expect.List(t, "history", brief(c.History), append(brief(b.History), "assistant failed (interrupted)")...)
	c.reply("whole")
	r.ends("m1", session.StatusDone)
	expect.List(t, "transcript", r.transcript(r.key), "user hello", "assistant half (interrupted)", "assistant failed (interrupted)", "assistant whole")
}
