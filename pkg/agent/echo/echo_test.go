package echo

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

var _ interface {
	agent.Agent
	agent.Describer
} = New()

// emitting is a turn with the function for its events.
func emitting(turn *agent.Turn, emit func(agent.Event)) *agent.Turn {
	t := *turn
	t.Host.Emit = emit
	return &t
}

func play1(ctx context.Context, attempt int, texts ...string) (reply string, events []agent.Event, err error) {
	turn := &agent.Turn{Attempt: attempt}
	for _, text := range texts {
		turn.Messages = append(turn.Messages, session.Message{Text: text})
	}
	result, err := New().Run(ctx, emitting(turn, func(e agent.Event) { events = append(events, e) }))
	return result.Text, events, err
}

func TestReply(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		texts []string
		want  string
	}{
		{[]string{"hello"}, "echo: hello"},
		{[]string{"  two\nlines\t"}, "echo:   two\nlines\t"},
		{[]string{"a", "b"}, "echo: a\n\nb"},
		{[]string{"stream=2 hello  you"}, "echo: hello  you"},
		{[]string{"\n tool=x\nhello"}, "echo: hello"},
		{[]string{"tool=x", "tool=y b"}, "echo: b"},
		{[]string{"say tool=x"}, "echo: say tool=x"},
		{[]string{"other=1 tool=x"}, "echo: other=1 tool=x"},
		{[]string{"=x"}, "echo: =x"},
		{[]string{""}, "echo: "},
	} {
		got, events, err := play1(t.Context(), 1, c.texts...)
		if err != nil || got != c.want {
			t.Errorf("%q: reply %q, error %v; want %q", c.texts, got, err, c.want)
		}
		text := ""
		for _, e := range events {
			text += e.Text
		}
		if text != c.want {
			t.Errorf("%q: the events say %q, want %q", c.texts, text, c.want)
		}
	}
}

func TestNoteIsAThought(t *testing.T) {
	t.Parallel()
	turn := &agent.Turn{Note: "[System note: x]", Messages: []session.Message{{Text: "stream=3 hi"}}}
	var thoughts string
	result, err := New().Run(t.Context(), emitting(turn, func(e agent.Event) {
		if e.Type == session.EventThought {
			thoughts += e.Text
		}
	}))
	if err != nil || result.Text != "echo: hi" || thoughts != turn.Note {
		t.Errorf("got %q and the thought %q, %v", result.Text, thoughts, err)
	}
	if turn.Messages[0].Text != "stream=3 hi" {
		t.Error("the caller's turn was changed")
	}
}

func TestStream(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		"stream=20 a reply that is long enough": 20,
		"stream=5 äöüß":                         5,
		"stream=100 hi":                         8, // characters of "echo: hi"
	} {
		reply, events, err := play1(t.Context(), 1, text)
		if err != nil {
			t.Fatal(err)
		}
		joined := ""
		for _, e := range events {
			if e.Type != session.EventText || e.Text == "" {
				t.Errorf("%q: event %+v", text, e)
			}
			joined += e.Text
		}
		if len(events) != want || joined != reply {
			t.Errorf("%q: %d events %q, want %d events %q", text, len(events), joined, want, reply)
		}
	}
}

func TestTools(t *testing.T) {
	t.Parallel()
	_, events, err := play1(t.Context(), 1, "tool=grep tool=a:b hi")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range events {
		got = append(got, string(e.Type)+" "+e.Name+" "+e.CallID)
	}
	want := "tool_start grep echo-1,tool_end grep echo-1,tool_start a:b echo-2,tool_end a:b echo-2,text  "
	if strings.Join(got, ",") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, ","), want)
	}
}

func TestFailures(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text             string
		attempt          int
		fails, retryable bool
	}{
		{"fail=final hi", 1, true, false},
		{"fail=retry hi", 7, true, true},
		{"fail=retry:2 hi", 2, true, true},
		{"fail=retry:2 hi", 3, false, false},
		{"fail=maybe", 1, true, false},
		{"fail=retry:x", 1, true, false},
		{"sleep=long", 1, true, false},
		{"sleep=-1s", 1, true, false},
		{"stream=0", 1, true, false},
		{"tick=x", 1, true, false},
		{"tool=", 1, true, false},
		{"title=_", 1, true, false},
		{"steer=no", 1, true, false},
		{"ask=", 1, true, false},
		{"ask=deploy", 1, true, false}, // nobody can be asked
		{"usage=1", 1, true, false},
		{"usage=-1:2", 1, true, false},
	} {
		_, _, err := play1(t.Context(), c.attempt, c.text)
		if (err != nil) != c.fails || errors.Is(err, agent.ErrRetryable) != c.retryable {
			t.Errorf("%q at attempt %d: %v", c.text, c.attempt, err)
		}
	}
}

func TestPanic(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("it did not panic")
		}
	}()
	_, _, _ = play1(t.Context(), 1, "panic=1")
}

func TestTakesTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for text, want := range map[string]time.Duration{
			"sleep=4s hi":                  4 * time.Second,
			"tool=x:2s hi":                 2 * time.Second,
			"stream=4 tick=100ms hi":       300 * time.Millisecond,
			"sleep=1s tick=1s stream=2 hi": 2 * time.Second,
		} {
			start := time.Now()
			if _, _, err := play1(t.Context(), 1, text); err != nil {
				t.Error(err)
			}
			if took := time.Since(start); took != want {
				t.Errorf("%q took %s, want %s", text, took, want)
			}
		}
	})
}

func TestInterrupt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cause := errors.New("enough")
		for text, events := range map[string]int{"sleep=1h hi": 0, "tool=x:1h hi": 1, "stream=3 tick=1h hi": 1} {
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second, func() { cancel(cause) })
			start := time.Now()
			_, got, err := play1(ctx, 1, text)
			if !errors.Is(err, cause) || time.Since(start) != time.Second || len(got) != events {
				t.Errorf("%q: after %s with %d events: %v", text, time.Since(start), len(got), err)
			}
		}
	})
}

// steered plays a turn and offers a steer every ten seconds of its first minute. It returns their
// fates.
func steered(t *testing.T, text string) (reply string, events []agent.Event, accepted []string, err error) {
	t.Helper()
	steers := make(chan agent.Steer)
	turn := &agent.Turn{Attempt: 1, Messages: []session.Message{{ID: "m1", Text: text}}, Host: agent.Host{Steers: steers}}
	over := make(chan struct{})
	offered := make(chan struct{})
	go func() {
		defer close(offered)
		for _, text := range []string{"one", "tool=x two"} {
			time.Sleep(10 * time.Second)
			select {
			case steers <- agent.NewSteer(session.Message{Text: text}, func() { accepted = append(accepted, text) }):
			case <-over:
			}
		}
	}()
	result, err := New().Run(t.Context(), emitting(turn, func(e agent.Event) { events = append(events, e) }))
	close(over)
	<-offered
	return result.Text, events, accepted, err
}

func TestSteers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for text, want := range map[string]struct {
			reply    string
			accepted int
		}{
			"sleep=1m hi":                      {"echo: hi\n\nsteered: one\n\nsteered: tool=x two", 2},
			"tool=grep:15s hi":                 {"echo: hi\n\nsteered: one", 1},
			"sleep=5s stream=2 hi":             {"echo: hi", 0},
			"steer=off sleep=1m hi":            {"echo: hi", 0},
			"sleep=15s steer=off sleep=1m hi":  {"echo: hi\n\nsteered: one", 1},
			"sleep=15s stream=2 tick=1m hi":    {"echo: hi\n\nsteered: one", 1},
			"hi":                               {"echo: hi", 0},
			"sleep=1m tool=x stream=3 tick=1s": {"echo: \n\nsteered: one\n\nsteered: tool=x two", 2},
		} {
			start := time.Now()
			reply, events, accepted, err := steered(t, text)
			if err != nil || reply != want.reply || len(accepted) != want.accepted {
				t.Errorf("%q: reply %q, accepted %q, error %v", text, reply, accepted, err)
			}
			said := ""
			for _, e := range events {
				said += e.Text
			}
			if said != reply {
				t.Errorf("%q: the events say %q, the reply %q", text, said, reply)
			}
			if took := time.Since(start); strings.HasPrefix(text, "sleep=1m hi") && took != time.Minute {
				t.Errorf("%q took %s: steers must not change that", text, took)
			}
		}
		// A steer that was accepted shares the turn's failure.
		if _, _, accepted, err := steered(t, "sleep=15s fail=final hi"); err == nil || len(accepted) != 1 {
			t.Errorf("accepted %q, error %v", accepted, err)
		}
	})
}

func TestTitle(t *testing.T) {
	t.Parallel()
	reply, events, err := play1(t.Context(), 1, "title=The_build hi")
	if err != nil || reply != "echo: hi" || len(events) != 2 {
		t.Fatalf("reply %q, events %+v, error %v", reply, events, err)
	}
	if events[0].Type != session.EventTitle || events[0].Text != "The build" {
		t.Errorf("%+v", events)
	}
}

func BenchmarkPlain(b *testing.B) {
	turn := &agent.Turn{Messages: []session.Message{{Text: "hello there"}}}
	a := New()
	b.ReportAllocs()
	for b.Loop() {
		_, _ = a.Run(b.Context(), turn)
	}
}

func TestPlainIsCheap(t *testing.T) {
	turn := emitting(&agent.Turn{Messages: []session.Message{{Text: "hello there"}}}, func(agent.Event) {})
	a, ctx := New(), t.Context()
	if n := testing.AllocsPerRun(100, func() { _, _ = a.Run(ctx, turn) }); n > 1 {
		t.Errorf("a plain turn makes %v allocations, want 1", n)
	}
}

func TestAskAndUsage(t *testing.T) {
	t.Parallel()
	for _, allowed := range []bool{true, false} {
		asked, tools, used := "", "", session.Usage{}
		turn := &agent.Turn{
			Attempt: 1, Messages: []session.Message{{Text: "usage=12:3 ask=deploy hello"}},
			Host: agent.Host{Ask: func(_ context.Context, q agent.Question) (session.Decision, error) {
				asked += q.Name
				return map[bool]session.Decision{true: session.Allow, false: session.Deny}[allowed], nil
			}},
		}
		result, err := New().Run(t.Context(), emitting(turn, func(e agent.Event) {
			switch e.Type {
			case session.EventUsage:
				used = *e.Usage
			case session.EventToolEnd:
				tools += e.Name + string(e.Output) + e.Error
			}
		}))
		want := "deploythe permission was not given"
		if allowed {
			want = `deploy"ok"`
		}
		if err != nil || result.Text != "echo: hello" || asked != "deploy" || tools != want {
			t.Errorf("%+v, %v, asked %q, tools %q", result, err, asked, tools)
		}
		if used != (session.Usage{Model: "echo", InputTokens: 12, OutputTokens: 3}) {
			t.Errorf("%+v", used)
		}
	}
}
