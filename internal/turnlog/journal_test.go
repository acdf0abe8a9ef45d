package turnlog

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"turnstile/internal/protocol"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/test/expect"
)

// writes is a Store that notes when the journal is written, and what followers are shown.
type writes struct {
	began time.Time
	at    []time.Duration
	gate  chan struct{} // writes of the journal wait for it to be closed; nil: they do not

	mu    sync.Mutex
	shown []string
}

func (w *writes) Emit(_ context.Context, events []session.Event) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range events {
		w.shown = append(w.shown, string(e.Type)+" "+e.CallID+e.Text)
	}
	return nil
}

func (*writes) Title(context.Context, string) error                    { return nil }
func (*writes) StoreState(context.Context, json.RawMessage, int) error { return nil }
func (*writes) Progressed()                                            {}
func (w *writes) Journal(ctx context.Context, written protocol.JournalWrite) (string, error) {
	w.at = append(w.at, time.Since(w.began))
	if w.gate != nil {
		<-w.gate
	}
	return "origin", w.Emit(ctx, written.Events)
}

// logOf begins a log in a bubble of synctest.
func logOf(t *testing.T, interval time.Duration) (*Log, *writes) {
	t.Helper()
	now := time.Now()
	w := &writes{began: now}
	return New(Config{
		Turn: &protocol.ClaimedTurn{ID: "t", Started: now, StartedAt: now}, Store: w, Context: t.Context(), CheckpointEvery: interval,
		Logger: slog.New(slog.DiscardHandler), Contain: func(string) {}, Began: func() {}, Used: func(session.Usage) {},
	}), w
}

// does makes the agent end a tool, or say something.
func (l *Log) does(a activity, call string) {
	if a == someText {
		l.Emit(agent.Event{Type: session.EventText, Text: call})
		return
	}
	l.Emit(agent.Event{Type: session.EventToolStart, CallID: call})
	l.Emit(agent.Event{Type: session.EventToolEnd, CallID: call, Output: []byte("1")})
}

// Activities at given times lead to checkpoints at the expected times: after text once an
// interval, after a tool's end at once, but a tenth of the interval after the last one.
func TestCheckpointsAfterTools(t *testing.T) {
	t.Parallel()
	type did struct {
		at time.Duration
		activity
	}
	for name, c := range map[string]struct {
		did  []did
		want []time.Duration
	}{
		"text": {[]did{{1 * time.Second, someText}, {2 * time.Second, someText}, {16 * time.Second, someText}},
			[]time.Duration{15 * time.Second, 30 * time.Second}},
		"a tool": {[]did{{100 * time.Millisecond, toolEnded}}, []time.Duration{100 * time.Millisecond}},
		"a tool before a text's checkpoint": {[]did{{1 * time.Second, someText}, {2 * time.Second, toolEnded}},
			[]time.Duration{2 * time.Second}},
		"a text behind a tool": {[]did{{2 * time.Second, toolEnded}, {3 * time.Second, someText}},
			[]time.Duration{2 * time.Second, 17 * time.Second}},
		"many tools": {[]did{{1 * time.Second, toolEnded}, {1100 * time.Millisecond, toolEnded}, {1200 * time.Millisecond, toolEnded},
			{2 * time.Second, toolEnded}, {10 * time.Second, toolEnded}},
			[]time.Duration{1 * time.Second, 2500 * time.Millisecond, 10 * time.Second}},
		"nothing": {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l, w := logOf(t, 15*time.Second)
				for i, d := range c.did {
					time.Sleep(time.Until(w.began.Add(d.at))) // the bubble's clock
					l.does(d.activity, strconv.Itoa(i))
					synctest.Wait()
				}
				time.Sleep(time.Hour)
				l.Stop()
				if !slices.Equal(w.at, c.want) {
					t.Errorf("checkpoints at %s, want %s", w.at, c.want)
				}
				l.does(toolEnded, "late")
				time.Sleep(time.Hour)
				expect.Equal(t, "checkpoints after the end", len(w.at), len(c.want))
			})
		})
	}
}

// A drain's checkpoint is taken at once, if there is anything new.
func TestCheckpointBeforeTheInterval(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, w := logOf(t, time.Hour)
		defer l.Stop()
		l.Checkpoint()
		synctest.Wait()
		expect.Equal(t, "checkpoints of nothing", len(w.at), 0)
		l.does(someText, "x")
		l.Checkpoint()
		synctest.Wait()
		expect.Equal(t, "checkpoints of a text", len(w.at), 1)
	})
}

// The end of a step, and what comes after it, is shown by the write that stores it, and not by a batch that is due before.
func TestEventsOfAStepWaitForItsWrite(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, w := logOf(t, time.Hour)
		defer l.Stop()
		spec := agent.StepSpec{Key: "step"}
		_, err := l.StartStep(t.Context(), spec)
		expect.OK(t, err)
		w.gate = make(chan struct{})
		l.does(toolEnded, "tool") // its checkpoint waits at the gate
		synctest.Wait()
		ended := make(chan error)
		go func() { ended <- l.EndStep(t.Context(), spec, agent.StepEnd{Output: []byte("1")}) }()
		synctest.Wait()
		l.does(someText, "after it")
		time.Sleep(time.Minute)
		synctest.Wait()
		before := []string{"tool_start step", "tool_start tool", "tool_end tool"}
		expect.List(t, "shown before", w.shown, before...)
		close(w.gate)
		expect.OK(t, <-ended)
		synctest.Wait()
		expect.List(t, "shown after", w.shown, append(before, "tool_end step", "text after it")...)
	})
}
