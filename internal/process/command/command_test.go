package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"turnstile/internal/process/guardian"
	"turnstile/internal/protocol/lease"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/test/expect"
)

func start(t *testing.T, held agent.Lease, script string) *Command {
	t.Helper()
	c, err := Start(Spec{Argv: []string{"sh", "-c", script}, Env: os.Environ(), Lease: held, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Kill()
		c.Wait()
		c.CloseOutput()
	})
	return c
}

// leased is a lease that is trusted for a while.
func leased(t testing.TB, d time.Duration) *lease.Lease {
	l := lease.New(context.Background(), time.Now(), d*10/9)
	t.Cleanup(l.End)
	return l
}

func TestFailureHasTheLastWords(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]string{
		"exit 0":               "<nil>",
		"exit 3":               "exit status 3",
		"echo why >&2; exit 3": "exit status 3: why",
		"printf 'a\\n\\nb\\nc\\nd\\n' >&2; exit 75": "exit status 75: b\nc\nd",
		"kill -KILL $$": "killed by signal: killed",
	} {
		c := start(t, nil, script)
		status := c.Wait()
		err := c.Failure(status)
		if Unfit(status) != nil || fmt.Sprint(err) != want || errors.Is(err, agent.ErrRetryable) != strings.Contains(script, "75") {
			t.Errorf("%s: %v, want %s", script, err, want)
		}
	}
}

func TestStartErrors(t *testing.T) {
	t.Parallel()
	_, err := Start(Spec{Argv: []string{"no-such-program-anywhere"}})
	if !errors.Is(err, agent.ErrUnavailable) || !strings.Contains(err.Error(), "could not start the agent") {
		t.Errorf("%v", err)
	}
	for own, status := range map[bool]guardian.Status{false: {StartError: errors.New("no")}, true: {StartError: errors.New("no"), OwnFault: true}} {
		if err := Unfit(status); !errors.Is(err, agent.ErrRetryable) || errors.Is(err, agent.ErrUnavailable) == own {
			t.Errorf("own fault %v: %v", own, err)
		}
	}
}

// A program that is lent from lease to lease dies with its present one.
func TestLentProgramDiesWithItsLease(t *testing.T) {
	t.Parallel()
	c := start(t, leased(t, time.Hour), "while read line; do echo $line; done")
	lines := bufio.NewReader(c.Stdout)
	alive := func() {
		t.Helper()
		_, _ = io.WriteString(c.Stdin, "here\n")
		if line, err := lines.ReadString('\n'); line != "here\n" {
			t.Fatalf("%q, %v", line, err)
		}
	}
	alive()
	before := leased(t, time.Hour)
	c.Lend(before)
	c.Lend(nil)
	before.Extend(time.Now(), 2*time.Hour) // the program has none now
	alive()
	c.Lend(leased(t, 300*time.Millisecond))
	alive()
	if status := c.Wait(); !status.LeaseExpired || !errors.Is(Unfit(status), agent.ErrLeaseLost) {
		t.Errorf("%+v", status)
	}
}

// Each renewal reaches the guardian at once.
func TestRenewedLease(t *testing.T) {
	t.Parallel()
	held := leased(t, time.Hour)
	c := start(t, held, "sleep 1000")
	for hours := 2; hours < 5; hours++ {
		held.Extend(time.Now(), time.Duration(hours)*time.Hour)
		expect.Soon(t, "the guardian's deadline", func() bool { return c.process.Deadline().Round(time.Second).Equal(held.Deadline().Round(time.Second)) })
	}
}

func TestEnd(t *testing.T) {
	t.Parallel()
	for _, cause := range []error{agent.ErrLeaseLost, errors.New("stopped")} {
		c := start(t, nil, `trap 'echo int; exit 0' INT; echo up; while :; do sleep 0.01; done`)
		out := bufio.NewReader(c.Stdout)
		if up, err := out.ReadString('\n'); up != "up\n" {
			t.Fatal(up, err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		c.End(ctx, time.Minute)
		status := c.Wait()
		rest, _ := io.ReadAll(out)
		if lost := errors.Is(cause, agent.ErrLeaseLost); lost != (status.Signal == 9) || lost == (string(rest) == "int\n") {
			t.Errorf("%v: %+v, %q", cause, status, rest)
		}
	}
}

func TestLines(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ in, want, err string }{
		{"", "", ""},
		{" a \r\n\n b\nc", "a|b|c|", ""},
		{"a\nbad\nc\n", "a|", "line 2 of the command's output: no"},
		{"a\nbad", "a|", "cut: line 2 of the command's output: no"},
		{"a\nworse\nc\n", "a|", "line 2 of the command's output: reading it panicked: at it"},
		{"a\n\xff\n", "a|", "line 2 of the command's output: it is not UTF-8"},
		{"a\n" + strings.Repeat("x", MaxLine+1), "a|", "line 2 of the command's output is longer than 8 MiB"},
		{strings.Repeat(strings.Repeat(" ", 1<<20)+"\n", 64), "", "the command wrote more than 64 MiB"},
	} {
		got := ""
		err := Lines(strings.NewReader(c.in), slog.New(slog.DiscardHandler), func(line []byte) error {
			switch string(line) {
			case "bad":
				return errors.New("no")
			case "worse":
				panic("at it")
			}
			got += string(line) + "|"
			return nil
		})
		text := ""
		var bad *LineError
		if errors.As(err, &bad) {
			if text = bad.Error(); bad.Cut {
				text = "cut: " + text
			}
		}
		if got != c.want || text != c.err {
			t.Errorf("%.20q: %q, %q (%v); want %q, %q", c.in, got, text, err, c.want, c.err)
		}
	}
}

// A sender's Redis user can write a turn's IDs. None keeps a program from being started, which would be the worker's
// fault for all sessions.
func TestForgedIDsInTheEnvironment(t *testing.T) {
	t.Parallel()
	env, err := NewEnv(nil)
	expect.OK(t, err)
	for id, want := range map[string]string{
		"01a1fd2d-7fa7": "01a1fd2d-7fa7", "a plain task's": "a plain task's",
		"a\x00b": "", "a\nTURNSTILE_FENCE=9": "", strings.Repeat("x", 200_000): "",
	} {
		turn := &agent.Turn{Session: id, TranscriptID: id, ID: id, Messages: []session.Message{{ID: id}}, Fence: 3}
		got := env.ForTurn(nil, turn)
		expect.List(t, fmt.Sprintf("%.20q", id), got,
			"TURNSTILE_SESSION="+want, "TURNSTILE_SESSION_ID="+want, "TURNSTILE_MESSAGE_ID="+want, "TURNSTILE_TURN_ID="+want, "TURNSTILE_FENCE=3")
	}
}
