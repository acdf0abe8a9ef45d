package neighbours

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"turnstile/pkg/session"
	"turnstile/test/expect"
)

// A worker of one version runs the messages of a sender of the other.
func TestSenders(t *testing.T) {
	t.Parallel()
	before, this := versions(t)
	for name, c := range map[string]struct{ sender, worker version }{
		"old sender, new worker": {before, this},
		"new sender, old worker": {this, before},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			s.worker(c.worker)
			e := exchange{s, c.sender}
			t.Run("wait", e.wait)
			t.Run("follow", e.follow)
			t.Run("ends", e.ends)
			t.Run("interrupt", e.interrupt)
			t.Run("stop", e.stop)
			t.Run("busy", e.busy)
			t.Run("new", e.rotate)
			t.Run("modes", e.modes)
			t.Run("commands", e.commands)
		})
	}
}

// exchange is a sender with workers of the other version.
type exchange struct {
	*stage
	sender version
}

// in is the same in a subtest.
func (e exchange) in(t *testing.T) exchange {
	t.Parallel()
	s := *e.stage
	s.T, s.ctx = t, t.Context()
	e.stage = &s
	return e
}

func (e exchange) enqueue(args ...string) said { e.Helper(); return e.stage.enqueue(e.sender, args...) }

func (e exchange) wants(what string, got, want said) {
	e.Helper()
	if got != want {
		e.Errorf("%s: got %+v, want %+v", what, got, want)
	}
}

// starts waits until a message's turn runs.
func (e exchange) starts(key, id string) {
	e.Helper()
	expect.Soon(e, "the start of "+id, func() bool {
		info := e.info(key)
		return info.Phase == "running" && slices.Contains(info.Messages, id)
	})
}

func (e exchange) wait(t *testing.T) {
	e = e.in(t)
	args := []string{"-s", "wait", "--id", "m", "--wait", "tool=search", "hello"}
	e.wants("a first message", e.enqueue(args...), said{out: "echo: hello\n"})
	e.wants("a duplicate", e.enqueue(args...), said{out: "echo: hello\n"})
	e.wants("a delayed one", e.enqueue("-s", "wait", "--in", "1s", "--wait", "later"), said{out: "echo: later\n"})
}

// A message waits for the end of a running turn, which writes the next turn's start.
func (e exchange) follow(t *testing.T) {
	e = e.in(t)
	e.enqueue("-s", "follow", "--id", "first", "sleep=500ms", "first")
	e.starts("follow", "first")
	follow := e.launch(e.sender, "enqueue", "", nil, "-s", "follow", "--id", "second", "--follow", "--json",
		"tool=search:200ms", "stream=3", "tick=150ms", "the", "second")
	expect.Soon(e, "the second message", func() bool { return e.info("follow").Waiting == 1 })
	if r := e.enqueue("-s", "follow", "--id", "third", "--follow", "third"); r.code != 0 || r.out != "echo: third\n" {
		t.Errorf("the third message: %+v", r)
	}
	r := follow()
	if r.code != 0 {
		t.Fatalf("the second message: %+v", r)
	}
	var types []session.EventType
	var text string
	var end session.Outcome
	for line := range strings.Lines(r.out) {
		var e session.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		types = append(types, e.Type)
		text += e.Text
		end = session.Outcome{} // the last line counts
		if err := json.Unmarshal([]byte(line), &end); err != nil {
			t.Fatal(err)
		}
	}
	if end.Status != session.StatusDone || end.Reply != "echo: the second" || text != end.Reply {
		t.Errorf("the end is %+v, the text was %q", end, text)
	}
	for _, want := range []session.EventType{session.EventTurnStarted, session.EventToolStart, session.EventToolEnd, session.EventText} {
		if !slices.Contains(types, want) {
			t.Errorf("no %s was seen: %s", want, r.out)
		}
	}
}

// The sender of the version before follows this version's events. A type that it does not know does
// not stop it.
func TestOldSenderWithNewEvents(t *testing.T) {
	t.Parallel()
	before, _ := versions(t)
	for _, form := range [][]string{{"--follow"}, {"--follow", "--json"}} {
		t.Run(strings.Join(form, " "), func(t *testing.T) {
			t.Parallel()
			r := newRecords(newStage(t), nil)
			follow := r.launch(before, "enqueue", "", nil, append(form, "-s", r.key, "--id", "one", "one")...)
			expect.Soon(r, "the message", func() bool { return r.info(r.key).Waiting == 1 })
			h := r.start()
			turn := h.Turn().ID
			expect.OK(r, h.Emit(r.ctx, []session.Event{
				{Type: session.EventThought, Turn: turn, Text: "hm"},
				{Type: session.EventUsage, Turn: turn, Usage: &session.Usage{InputTokens: 1}},
				{Type: session.EventRaw, Turn: turn, Name: "x", Data: []byte(`{"y":[1]}`)},
				{Type: session.EventQuestionAsked, Turn: turn, CallID: "1", Name: "rm", Input: []byte(`{"x":1}`)},
				{Type: session.EventQuestionAnswered, Turn: turn, CallID: "1", Decision: session.Deny},
				{Type: "of a later version", Turn: turn, Text: "x"},
			}))
			r.finish(h)
			if said := follow(); said.code != 0 || !strings.Contains(said.out, "echo: one") {
				t.Errorf("%+v", said)
			}
		})
	}
}

func (e exchange) ends(t *testing.T) {
	e = e.in(t)
	e.wants("failed", e.enqueue("-s", "ends", "--id", "f", "--wait", "fail=final", "x"), said{5, "", "enqueue: message f failed: echo: told to fail\n"})
	if r := e.enqueue("-s", "ends", "--follow", "fail=retry:1", "again"); r.code != 0 || r.out != "echo: again\n" {
		t.Errorf("tried again: %+v", r)
	}
}

func (e exchange) interrupt(t *testing.T) {
	e = e.in(t)
	e.enqueue("-s", "interrupt", "--id", "long", "sleep=1m", "long")
	e.starts("interrupt", "long")
	e.wants("the interrupting message", e.enqueue("-s", "interrupt", "--mode", "interrupt", "--wait", "now"), said{out: "echo: now\n"})
	if o := e.stage.ends("interrupt", "long"); o.Status != session.StatusInterrupted {
		t.Errorf("the interrupted message: %+v", o)
	}
}

func (e exchange) stop(t *testing.T) {
	e = e.in(t)
	e.enqueue("-s", "stop", "--id", "long", "sleep=1m", "long")
	e.starts("stop", "long")
	e.enqueue("-s", "stop", "--id", "behind", "behind")
	if r := e.enqueue("-s", "stop", "/stop"); r.code != 0 || !strings.Contains(r.out, "Stopping the running turn") {
		t.Errorf("/stop: %+v", r)
	}
	for _, id := range []string{"long", "behind"} {
		if o := e.stage.ends("stop", id); o.Status != session.StatusStopped {
			t.Errorf("%s: %+v", id, o)
		}
	}
	e.wants("after the stop", e.enqueue("-s", "stop", "--wait", "on"), said{out: "echo: on\n"})
}

func (e exchange) busy(t *testing.T) {
	e = e.in(t)
	e.enqueue("-s", "busy", "--id", "long", "sleep=1m", "long")
	e.starts("busy", "long")
	if r := e.enqueue("-s", "busy", "--mode", "reject", "no"); r.code != 3 {
		t.Errorf("a message that is to be refused: %+v", r)
	}
	e.wants("after it", e.enqueue("-s", "busy", "--mode", "interrupt", "--wait", "yes"), said{out: "echo: yes\n"})
}

// rotate begins a new transcript in the middle of a turn.
func (e exchange) rotate(t *testing.T) {
	e = e.in(t)
	e.enqueue("-s", "new", "--id", "first", "sleep=500ms", "first")
	e.starts("new", "first")
	if r := e.enqueue("-s", "new", "/new"); r.code != 0 {
		t.Errorf("/new: %+v", r)
	}
	e.wants("the next message", e.enqueue("-s", "new", "--id", "second", "--wait", "second"), said{out: "echo: second\n"})
	e.oneSet("new", entries("echo: second", "second"))
}

// Messages of each mode for a session with a running turn.
func (e exchange) modes(t *testing.T) {
	e = e.in(t)
	for mode, first := range map[session.Mode]session.Status{
		session.ModeCollect: session.StatusDone, session.ModeSteer: session.StatusDone, session.ModeRollback: session.StatusInterrupted,
	} {
		key := string(mode)
		e.enqueue("-s", key, "--id", "first", "sleep=500ms", "first")
		e.starts(key, "first")
		if r := e.enqueue("-s", key, "--mode", key, "--wait", "hello"); r.code != 0 || !strings.Contains(r.out, "hello") {
			t.Errorf("a message of mode %s: %+v", key, r)
		}
		if o := e.stage.ends(key, "first"); o.Status != first {
			t.Errorf("the message before one of mode %s: %+v", key, o)
		}
		if first == session.StatusDone {
			e.nothingLeft(key) // a rolled-back message is a dead letter
		}
	}
}

func (e exchange) commands(t *testing.T) {
	e = e.in(t)
	for _, command := range []string{"/title A title", "/queue collect debounce:0.2s cap:3 drop:summarize"} {
		if r := e.enqueue("-s", "commands", command); r.code != 0 {
			t.Errorf("%s: %+v", command, r)
		}
	}
	e.enqueue("-s", "commands", "--id", "first", "sleep=500ms", "first")
	e.starts("commands", "first")
	e.wants("a message", e.enqueue("-s", "commands", "--wait", "hello"), said{out: "echo: hello\n"})
	for _, command := range []string{"/status", "/history", "/undo", "/retry"} {
		if r := e.enqueue("-s", "commands", command); r.code != 0 {
			t.Errorf("%s: %+v", command, r)
		}
	}
	expect.Soon(e, "the end of the retry", func() bool { return len(e.ended("commands")) == 3 })
	e.nothingLeft("commands")
}
