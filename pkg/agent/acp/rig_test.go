package acp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/test/expect"
)

// patience bounds how long a test waits for an event.
const patience = expect.Patience

func actorCommand(t testing.TB, args ...string) []string {
	t.Helper()
	self, err := os.Executable()
	expect.OK(t, err)
	return append([]string{self, "test-agent"}, args...)
}

// newAgent makes an agent of the config. It logs if the tests are verbose.
func newAgent(t testing.TB, c Config) *Agent {
	t.Helper()
	c.Logger = slog.New(slog.DiscardHandler)
	if testing.Verbose() {
		c.Logger = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	a, err := New(c)
	expect.OK(t, err)
	return a
}

// acting is an agent of this binary, with the abilities and actions in args.
func acting(t testing.TB, args ...string) *Agent {
	t.Helper()
	return newAgent(t, Config{Command: actorCommand(t, args...), Permissions: Allow})
}

var turns struct {
	sync.Mutex
	n int64
}

// turnWith is a turn with this text, unlike any other test's.
func turnWith(t testing.TB, lines ...string) *agent.Turn {
	t.Helper()
	turns.Lock()
	defer turns.Unlock()
	turns.n++
	return &agent.Turn{
		Session: t.Name(), TranscriptID: "id-1", ID: fmt.Sprintf("turn-%d", turns.n), Fence: turns.n, Attempt: 1,
		Messages: []session.Message{{ID: "m1", Text: strings.Join(lines, "\n")}},
	}
}

// emitted are a turn's events.
type emitted struct {
	mu     sync.Mutex
	events []agent.Event
	on     func(agent.Event)
}

func (h *emitted) emit(e agent.Event) {
	h.mu.Lock()
	h.events = append(h.events, e)
	h.mu.Unlock()
	if h.on != nil {
		h.on(e)
	}
}

func (h *emitted) of(kind session.EventType) (found []agent.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.events {
		if e.Type == kind {
			found = append(found, e)
		}
	}
	return found
}

func (h *emitted) text() string {
	var all strings.Builder
	for _, e := range h.of(session.EventText) {
		all.WriteString(e.Text)
	}
	return all.String()
}

// story is the events in short form, without those of state.
func (h *emitted) story() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []string
	for _, e := range h.events {
		s := string(e.Type)
		for _, part := range []string{e.Name, e.CallID, e.Text, string(e.Input), string(e.Output), e.Error} {
			if part != "" {
				s += " " + part
			}
		}
		if e.Usage != nil {
			s += fmt.Sprintf(" %+v", *e.Usage)
		}
		if e.Type != session.EventState {
			all = append(all, s)
		}
	}
	return strings.Join(all, "\n")
}

// state is the last state that was emitted.
func (h *emitted) state(t testing.TB) []byte {
	t.Helper()
	all := h.of(session.EventState)
	if len(all) == 0 {
		t.Fatal("no state was emitted")
	}
	return all[len(all)-1].Data
}

// emitting is a turn with the function for its events.
func emitting(turn *agent.Turn, emit func(agent.Event)) *agent.Turn {
	t := *turn
	t.Host.Emit = emit
	return &t
}

// play runs one turn with a separate process.
func play(ctx context.Context, a *Agent, turn *agent.Turn) (*emitted, error) {
	h := &emitted{}
	_, err := a.Run(ctx, emitting(turn, h.emit))
	return h, err
}

// warmed is a warm agent that is closed when the test ends.
func warmed(t testing.TB, a *Agent, turn *agent.Turn) *warm {
	t.Helper()
	w, err := a.Warm(t.Context(), turn)
	expect.OK(t, err)
	t.Cleanup(func() {
		begun := time.Now()
		expect.OK(t, w.Close())
		if took := time.Since(begun); took > a.config.Grace+5*time.Second {
			t.Errorf("closing took %s", took)
		}
		assertGone(t, w.(*warm))
	})
	return w.(*warm)
}

func runWarm(t testing.TB, w *warm, turn *agent.Turn) (*emitted, error) {
	t.Helper()
	h := &emitted{}
	_, err := w.Run(t.Context(), emitting(turn, h.emit))
	return h, err
}

func assertGone(t testing.TB, w *warm) {
	t.Helper()
	select {
	case <-w.Done():
	default:
		t.Error("the process is still there")
	}
}

// alive reports whether a process runs, by its ID.
func alive(pid int) bool { return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

// failed checks an error: its words, and whether it is retryable.
func failed(t testing.TB, err error, retryable bool, want ...string) {
	t.Helper()
	if err == nil {
		t.Error("no error")
		return
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q does not say %q", err, w)
		}
	}
	if errors.Is(err, agent.ErrRetryable) != retryable {
		t.Errorf("error %q: retryable %v", err, !retryable)
	}
}

// logOf is the log of an agent's input, a method and its parameters a line, without its pid.
func logOf(t testing.TB, path string) (lines []string) {
	t.Helper()
	data, err := os.ReadFile(path)
	expect.OK(t, err)
	for line := range strings.Lines(string(data)) {
		_, line, _ = strings.Cut(strings.TrimSpace(line), " ")
		lines = append(lines, line)
	}
	return lines
}

// methodsOf is that without the parameters.
func methodsOf(t testing.TB, path string) string {
	t.Helper()
	var methods []string
	for _, line := range logOf(t, path) {
		method, _, _ := strings.Cut(line, " ")
		methods = append(methods, strings.TrimPrefix(method, "session/"))
	}
	return strings.Join(methods, " ")
}

var someHistory = []session.Entry{{Role: session.RoleUser, Text: "my name is Ann"}, {Role: session.RoleAssistant, Text: "hello Ann"}}
