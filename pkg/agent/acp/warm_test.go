package acp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"turnstile/internal/protocol/lease"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/test/expect"
)

func TestTurnsOfOneProcess(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "log")
	a := acting(t, "log="+log, "can-close")
	w := warmed(t, a, turnWith(t))
	first, err := runWarm(t, w, turnWith(t, "pid"))
	expect.OK(t, err)
	second, err := runWarm(t, w, turnWith(t, "pid"))
	expect.OK(t, err)
	if first.text() != second.text() || string(first.state(t)) != string(second.state(t)) {
		t.Errorf("%s and %s, %s and %s", first.text(), second.text(), first.state(t), second.state(t))
	}
	// Another transcript with a history needs a new session, which receives a recap.
	other := turnWith(t, "pid")
	other.TranscriptID = "id-2"
	third, err := runWarm(t, w, other)
	expect.OK(t, err)
	if third.text() != first.text() || string(third.state(t)) == string(first.state(t)) {
		t.Errorf("%s and %s, %s and %s", first.text(), third.text(), first.state(t), third.state(t))
	}
	if got, want := methodsOf(t, log), "initialize new prompt _turnstile/settled prompt close new prompt"; got != want {
		t.Errorf("told %s, want %s", got, want)
	}
}

func TestAnotherWorkersSession(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ args, state, methods string }{
		{"can-resume can-load", "", "initialize resume prompt"},
		{"can-load", "", "initialize load prompt"},
		{"can-load load=-32602", "", "initialize load new prompt"},
		{"can-resume resume=-32002", "", "initialize resume new prompt"},
		{"", "", "initialize new prompt"},
		{"can-resume", `{"agent":"exec","id":"old"}`, "initialize new prompt"},
		{"can-resume", `{"agent":"acp"}`, "initialize new prompt"},
		{"can-resume", `{"agent":"acp","id":"old","name":"another"}`, "initialize new prompt"},
		{"can-resume name=me", "", "initialize new prompt"},
		{"can-resume", `{"agent":"acp","id":"../../another"}`, "initialize new prompt"},
		{"can-resume", `{"agent":"acp","id":"a\nb"}`, "initialize new prompt"},
		{"can-resume", `"odd"`, "initialize new prompt"},
		{"can-resume", "null", "initialize new prompt"},
	} {
		log := filepath.Join(t.TempDir(), "log")
		turn := turnWith(t, "and now?")
		turn.History, turn.State = someHistory, json.RawMessage(`{"agent":"acp","id":"old","cost":2}`)
		if c.state != "" {
			turn.State = json.RawMessage(c.state)
		}
		h, err := play(t.Context(), acting(t, append(strings.Fields(c.args), "echo", "log="+log)...), turn)
		expect.OK(t, err)
		if got := methodsOf(t, log); got != c.methods {
			t.Errorf("%s: told %s, want %s", c.args, got, c.methods)
		}
		anew := strings.Contains(c.methods, "new")
		if recapped := strings.Contains(h.text(), "my name is Ann"); recapped != anew {
			t.Errorf("%s: told %q", c.args, h.text())
		}
		if strings.Contains(h.text(), "replayed") {
			t.Errorf("%s: what was replayed was passed on: %s", c.args, h.text())
		}
		if kept := string(h.state(t)) == `{"agent":"acp","id":"old","cost":2}`; kept == anew {
			t.Errorf("%s: state %s", c.args, h.state(t))
		}
	}
}

// The ID of a session is stored before it has received the recap. Every turn gives it the recap
// until one has succeeded, and none after that.
func TestARecapIsOwedUntilATurnHasEndedWell(t *testing.T) {
	t.Parallel()
	a := acting(t, "can-resume", "recount")
	turn := turnWith(t, "exit 3")
	turn.History = someHistory
	for i, last := range []string{"exit 3", "end refusal", "text ok", "text ok"} {
		turn.Messages[0].Text = last
		h, err := play(t.Context(), a, turn)
		if (err == nil) != (i >= 2) {
			t.Errorf("turn %d: %v", i, err)
		}
		turn.State = h.state(t)
		if owed := strings.Contains(string(turn.State), `"recap":true`); owed != (i < 2) {
			t.Errorf("turn %d keeps %s", i, turn.State)
		}
		if told := strings.HasPrefix(h.text(), "recap "); told != (i < 3) {
			t.Errorf("turn %d says %q", i, h.text())
		}
	}
	// The same with one process, and with other state to store.
	w := warmed(t, a, turn)
	other := turnWith(t, `update {"sessionUpdate":"usage_update","used":1,"size":2,"cost":{"amount":3,"currency":"USD"}}`, "text ok")
	other.TranscriptID, other.History = "id-2", someHistory
	for i := range 2 {
		h, err := runWarm(t, w, other)
		expect.OK(t, err)
		if told := strings.HasPrefix(h.text(), "recap "); told != (i == 0) || strings.Contains(string(h.state(t)), "recap") || !strings.Contains(string(h.state(t)), `"cost":3`) {
			t.Errorf("turn %d says %q, keeps %s", i, h.text(), h.state(t))
		}
	}
}

// The agent's figure is that of its session, which continues.
func TestCostIsCountedOnce(t *testing.T) {
	t.Parallel()
	cost := func(amount string) string {
		return `update {"sessionUpdate":"usage_update","used":1,"size":2,"cost":{"amount":` + amount + `,"currency":"USD"}}`
	}
	turn := turnWith(t, "text a", cost("2.5"), cost("2.5"), cost("1"), cost("-1"), cost("1.5"))
	turn.State = json.RawMessage(`{"agent":"acp","id":"old","cost":2}`)
	h, err := play(t.Context(), acting(t, "can-resume"), turn)
	expect.OK(t, err)
	got := ""
	for _, e := range h.of(session.EventUsage) {
		got += fmt.Sprint(e.Usage.CostUSD, " ")
	}
	if got != "0.5 0 1 0 0.5 " {
		t.Errorf("costs %s", got)
	}
}

func TestDeathBetweenTwoTurns(t *testing.T) {
	t.Parallel()
	w := warmed(t, acting(t), turnWith(t))
	h, err := runWarm(t, w, turnWith(t, "pid"))
	expect.OK(t, err)
	pid, err := strconv.Atoi(h.text())
	expect.OK(t, err)
	expect.OK(t, syscall.Kill(pid, syscall.SIGKILL))
	<-w.Done()
	_, err = runWarm(t, w, turnWith(t, "pid"))
	failed(t, err, true, "the agent ended between two turns: killed by signal: killed")
}

// stopping cancels a turn at its first text.
func stopping(t *testing.T, a *Agent, cause error, lines ...string) (took, closed time.Duration, h *emitted, w *warm) {
	t.Helper()
	built, err := a.Warm(t.Context(), turnWith(t))
	expect.OK(t, err)
	w = built.(*warm)
	ctx, cancel := context.WithCancelCause(t.Context())
	var begun time.Time
	h = &emitted{on: func(e agent.Event) {
		if e.Type == session.EventText && begun.IsZero() {
			begun = time.Now()
			cancel(cause)
		}
	}}
	_, err = w.Run(ctx, emitting(turnWith(t, lines...), h.emit))
	took = time.Since(begun)
	if !errors.Is(err, cause) {
		t.Errorf("error %v, want %v", err, cause)
	}
	expect.OK(t, w.Close())
	assertGone(t, w)
	return took, time.Since(begun), h, w
}

func TestCancel(t *testing.T) {
	t.Parallel()
	cause := errors.New("stopped")
	log := filepath.Join(t.TempDir(), "log")
	tool := `update {"sessionUpdate":"tool_call","toolCallId":"a","title":"x","status":"in_progress"}`
	a := newAgent(t, Config{
		Command: actorCommand(t, "log="+log, "can-close"), Grace: time.Minute,
		Permissions: AskUser,
	})
	_, closed, h, _ := stopping(t, a, cause, tool, "text a", "cancelled", "text b", "end cancelled")
	if h.text() != "ab" || closed > 30*time.Second {
		t.Errorf("%q after %s", h.text(), closed)
	}
	if got := methodsOf(t, log); got != "initialize new prompt cancel close" {
		t.Errorf("told %s", got)
	}
	if len(h.of(session.EventToolEnd)) != 0 {
		t.Error("a tool that was cut off has an end")
	}
}

func TestCancelOfADeafAgent(t *testing.T) {
	t.Parallel()
	cause := errors.New("stopped")
	a := newAgent(t, Config{Command: actorCommand(t, "deaf"), Grace: 700 * time.Millisecond})
	took, closed, _, _ := stopping(t, a, cause, "text a", "hang")
	if took < 600*time.Millisecond || closed > 5*time.Second {
		t.Errorf("killed after %s, closed after %s", took, closed)
	}
	// It responds to the cancel, and then does not end: it has the rest of the grace for that.
	_, closed, _, _ = stopping(t, a, cause, "text a", "cancelled", "end cancelled")
	if closed > 5*time.Second {
		t.Errorf("closed after %s", closed)
	}
	a = newAgent(t, Config{Command: actorCommand(t, "deaf"), Grace: -1})
	if _, closed, _, _ = stopping(t, a, cause, "text a", "hang"); closed > 5*time.Second {
		t.Errorf("without a grace: closed after %s", closed)
	}
	a = newAgent(t, Config{Command: actorCommand(t, "deaf"), Grace: time.Hour})
	if _, closed, _, _ = stopping(t, a, agent.ErrLeaseLost, "text a", "hang"); closed > 20*time.Second {
		t.Errorf("after the loss of the session: closed after %s", closed)
	}
}

// An agent that does not read blocks nothing, and is ended at a limit.
func TestAnAgentThatDoesNotRead(t *testing.T) {
	t.Parallel()
	cause := errors.New("stopped")
	for mib, want := range map[int]string{1: "stopped", 20: "it has left more than 16 MiB unread"} {
		a := newAgent(t, Config{Command: actorCommand(t, "deaf"), Grace: 500 * time.Millisecond})
		w := warmed(t, a, turnWith(t))
		ctx, cancel := context.WithCancelCause(t.Context())
		h := &emitted{on: func(e agent.Event) {
			if e.Type != session.EventText {
				return
			}
			for range mib {
				w.notify("_noise", strings.Repeat("x", 1<<20))
			}
			if mib == 1 {
				cancel(cause)
			}
		}}
		_, err := w.Run(ctx, emitting(turnWith(t, "text a", "hang"), h.emit))
		failed(t, err, false, want)
		cancel(nil)
	}
}

// A request that comes while no turn runs gets a response, too.
func TestBetweenTurns(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "log")
	a := acting(t, "log="+log)
	w := warmed(t, a, turnWith(t))
	// The turn ends, and the agent writes for a while longer.
	h, err := runWarm(t, w, turnWith(t, "text a", `raw {"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}`,
		"text late", "ask "+wantsPermission, `ask fs/read_text_file {"sessionId":"SESSION","path":"x"}`, "answers 2"))
	expect.OK(t, err)
	if !strings.HasPrefix(h.text(), "a") { // with the text until the turn was closed
		t.Errorf("said %q", h.text())
	}
	// The rest of that does not disturb the next turn.
	if h, err = runWarm(t, w, turnWith(t, "text b")); err != nil || !strings.HasSuffix(h.text(), "b") {
		t.Errorf("%v: %s", err, h.story())
	}
}

// A wait for an agent's end kills the agent when the session is lost meanwhile.
func TestLossWhileAnAgentEnds(t *testing.T) {
	t.Parallel()
	a := newAgent(t, Config{Command: actorCommand(t, "deaf"), Grace: time.Minute})
	w := warmed(t, a, turnWith(t))
	ctx, cancel := context.WithCancelCause(t.Context())
	begun := time.Now()
	time.AfterFunc(exitTime+500*time.Millisecond, func() { cancel(agent.ErrLeaseLost) })
	_, err := w.Run(ctx, turnWith(t, "text a", "close-stdout"))
	if took := time.Since(begun); !errors.Is(err, agent.ErrLeaseLost) || took > 30*time.Second {
		t.Errorf("%v after %s", err, took)
	}
}

// leased is a turn with a lease that is not renewed.
func leased(turn *agent.Turn, ttl time.Duration) *agent.Turn {
	turn.Host.Lease = lease.New(context.Background(), time.Now(), ttl)
	return turn
}

func TestLeaseHoldsForTurnsOnly(t *testing.T) {
	t.Parallel()
	a := acting(t)
	w := warmed(t, a, turnWith(t))
	_, err := w.Run(t.Context(), leased(turnWith(t, "text a"), time.Hour))
	expect.OK(t, err)
	_, err = w.Run(t.Context(), leased(turnWith(t, "text a", "hang"), 300*time.Millisecond))
	if !errors.Is(err, agent.ErrLeaseLost) || !errors.Is(err, agent.ErrRetryable) {
		t.Errorf("%v", err)
	}
}

// A session whose turns fail each time is given up after the second failure. A failure of another kind does not count.
func TestASessionThatFailsEachTime(t *testing.T) {
	t.Parallel()
	const poison, busy = `error {"code":-32603,"message":"400 invalid_request_error"}`, `error {"code":-32603,"message":"429 slow down"}`
	a := acting(t, "can-load", "recount")
	at := func(state []byte, line string) (*emitted, error) {
		turn := turnWith(t, line)
		turn.State, turn.History = state, someHistory
		return play(t.Context(), a, turn)
	}
	old := []byte(`{"agent":"acp","id":"old"}`)
	for name, c := range map[string]struct {
		lines []string
		fresh bool
	}{
		"twice":               {[]string{poison, poison}, true},
		"without a word":      {[]string{"end end_turn", "end end_turn"}, true},
		"once":                {[]string{poison}, false},
		"a success between":   {[]string{poison, "text well", poison}, false},
		"of another kind":     {[]string{busy, busy, busy}, false},
		"after it has spoken": {[]string{"text so\n" + poison, "text so\n" + poison}, false},
	} {
		state := old
		for _, line := range c.lines {
			h, err := at(state, line)
			if err == nil && line != "text well" {
				t.Errorf("%s: %s did not fail", name, line)
			}
			state = h.state(t)
		}
		h, err := at(state, "text at last")
		expect.OK(t, err)
		expect.Equal(t, name+": the old session goes on", strings.Contains(string(h.state(t)), `"id":"old"`), !c.fresh)
		expect.Equal(t, name+": a recap", strings.HasPrefix(h.text(), "recap "), c.fresh)
		expect.Equal(t, name+": a notice", len(h.of(session.EventNotice)), map[bool]int{true: 1}[c.fresh])
	}
}
