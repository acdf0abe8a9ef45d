package exec

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

var _ agent.Agent = (*Agent)(nil)

// runText runs a turn and joins the text that it emits.
func runText(ctx context.Context, a *Agent, tn *agent.Turn) (string, error) {
	var text strings.Builder
	_, err := a.Run(ctx, emitting(tn, func(e agent.Event) { text.WriteString(e.Text) }))
	return text.String(), err
}

func TestTextFormat(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]string{
		"cat":                      "hällo\n\nwörld",
		"cat; echo; echo":          "hällo\n\nwörld",
		"cat >/dev/null; echo a":   "a",
		"printf '\\n a \\r\\n\\n'": "\n a ",
		"exec 0<&-; echo unread":   "unread",
	} {
		a := newAgent(t, Config{Command: shell(script)})
		tn := turn(t, "hällo")
		tn.Messages = append(tn.Messages, session.Message{ID: "m2", Text: "wörld"})
		if reply, err := runText(t.Context(), a, tn); err != nil || reply != want {
			t.Errorf("%s: reply %q, error %v; want %q", script, reply, err, want)
		}
	}
}

func TestLargeInputAndOutput(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("0123456789 äöü\n", 60_000)
	text = text[:len(text)-1] + "!"
	for _, script := range []string{"cat", "sleep 0.1; cat"} {
		a := newAgent(t, Config{Command: shell(script)})
		reply, err := runText(t.Context(), a, turn(t, text))
		if err != nil || reply != text {
			t.Errorf("%s: %d bytes came back of %d: %v", script, len(reply), len(text), err)
		}
	}
	// A command that never reads its stdin, and behaves like a daemon.
	a := newAgent(t, Config{Command: shell("echo done")})
	if reply, err := runText(t.Context(), a, turn(t, text)); err != nil || reply != "done" {
		t.Errorf("reply %q, error %v", reply, err)
	}
}

// The agent waits until the test has seen its first text.
func TestStreamingArrivesBeforeTheEnd(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		format Format
		script string
	}{
		{Text, `echo one; cat "$0"; echo two`},
		{JSONL, `echo '{"type":"text","text":"one"}'; cat "$0"; printf '%s\n' '{"type":"text","text":"\ntwo"}'`},
	} {
		fifo := filepath.Join(t.TempDir(), "fifo")
		if err := syscall.Mkfifo(fifo, 0o600); err != nil {
			t.Fatal(err)
		}
		a := newAgent(t, Config{Command: append(shell(c.script), fifo), Format: c.format})
		text := ""
		_, err := a.Run(t.Context(), emitting(turn(t, "hi"), func(e agent.Event) {
			if text == "" {
				f, err := os.OpenFile(fifo, os.O_WRONLY, 0)
				if err != nil {
					t.Error(err)
				}
				_ = f.Close()
			}
			text += e.Text
		}))
		if err != nil || text != "one\ntwo" {
			t.Errorf("%s: text %q, error %v", c.format, text, err)
		}
	}
}

func TestExits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		script    string
		want      string
		retryable bool
	}{
		{"echo one >&2; echo 'two words' >&2; exit 3", "exit status 3: one\ntwo words", false},
		{"exit 1", "exit status 1", false},
		{"printf 'no newline' >&2; exit 1", "exit status 1: no newline", false},
		{"echo busy >&2; exit 75", "exit status 75: busy", true},
		{"kill -SEGV $$", "killed by signal: segmentation fault", false},
		{"echo oops >&2; kill -KILL $$", "killed by signal: killed: oops", false},
	} {
		a := newAgent(t, Config{Command: shell(c.script)})
		_, err := runText(t.Context(), a, turn(t, ""))
		if err == nil || err.Error() != c.want || errors.Is(err, agent.ErrRetryable) != c.retryable {
			t.Errorf("%s: %v, retryable %v; want %s, %v", c.script, err, errors.Is(err, agent.ErrRetryable), c.want, c.retryable)
		}
	}
}

func TestCouldNotStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	garbage := filepath.Join(dir, "garbage")
	for name, mode := range map[string]os.FileMode{plain: 0o600, garbage: 0o700} {
		if err := os.WriteFile(name, []byte("no program"), mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, program := range []string{"no-such-program-anywhere", plain, garbage, dir} {
		a := newAgent(t, Config{Command: []string{program}})
		_, err := runText(t.Context(), a, turn(t, ""))
		if !errors.Is(err, agent.ErrUnavailable) || !strings.Contains(err.Error(), "could not start") {
			t.Errorf("%s: %v", program, err)
		}
	}
	if err := newAgent(t, Config{Command: []string{plain}}).Check(); err == nil {
		t.Error("Check finds no fault in a file that cannot be executed")
	}
	if err := newAgent(t, Config{Command: []string{"sh"}}).Check(); err != nil {
		t.Error(err)
	}
	a := newAgent(t, Config{Command: []string{"sh"}, Dir: filepath.Join(dir, "none")})
	if _, err := runText(t.Context(), a, turn(t, "")); !errors.Is(err, agent.ErrRetryable) || errors.Is(err, agent.ErrUnavailable) {
		t.Errorf("missing directory: %v", err)
	}
}

func TestInterrupt(t *testing.T) {
	t.Parallel()
	cause := errors.New("stopped by user")
	for _, c := range []struct {
		name, script, want string
		grace              time.Duration
	}{
		{"it may say goodbye", `trap 'echo bye; exit 0' INT; echo up; while :; do sleep 0.01; done`, "up\nbye", time.Hour},
		{"it dies of SIGINT", `echo up; exec sleep 1000`, "up", time.Hour},
		{"it is deaf", `trap "" INT; echo up; sleep 1000; echo never`, "up", 20 * time.Millisecond},
		{"it is stopped", `trap 'echo bye; exit 0' INT; echo up; kill -STOP $$; sleep 1000`, "up\nbye", time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a := newAgent(t, Config{Command: shell(c.script), Grace: c.grace})
			ctx, cancel := context.WithCancelCause(t.Context())
			text := ""
			_, err := a.Run(ctx, emitting(turn(t, ""), func(e agent.Event) {
				text += e.Text
				cancel(cause)
			}))
			if !errors.Is(err, cause) || text != c.want {
				t.Errorf("text %q, error %v; want %q", text, err, c.want)
			}
		})
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	a := newAgent(t, Config{Command: []string{"no-such-program-anywhere"}})
	if _, err := runText(ctx, a, turn(t, "")); !errors.Is(err, cause) {
		t.Errorf("cancelled before the start: %v", err)
	}
}

// A script's background worker ignores SIGINT, and a child inherits that unless the guardian resets
// it.
func TestInterruptReachesTheAgentOfADeafWorker(t *testing.T) {
	signal.Ignore(syscall.SIGINT)
	defer signal.Reset(syscall.SIGINT)
	a := newAgent(t, Config{Command: shell(`echo up; exec sleep 1000`), Grace: time.Hour})
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := a.Run(ctx, emitting(turn(t, ""), func(agent.Event) { cancel() })); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestEnvironment(t *testing.T) {
	t.Parallel()
	tn := turn(t, "")
	tn.Messages = append(tn.Messages, session.Message{ID: "m2"})
	tn.TraceParent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	for _, c := range []struct {
		extra     []string
		has, lack []string
	}{
		{nil, []string{"LC_TEST=yes"}, []string{"EXEC_TEST_ONE", "OTHER_TEST"}},
		{[]string{"EXEC_TEST_ONE"}, []string{"EXEC_TEST_ONE=1"}, []string{"EXEC_TEST_TWO"}},
		{[]string{"EXEC_TEST_*"}, []string{"EXEC_TEST_ONE=1", "EXEC_TEST_TWO=2"}, []string{"OTHER_TEST"}},
		{[]string{"*"}, []string{"OTHER_TEST=no"}, nil},
	} {
		a := newAgent(t, Config{Command: []string{"env"}, Env: c.extra})
		out, err := runText(t.Context(), a, tn)
		if err != nil {
			t.Fatal(err)
		}
		vars := map[string]string{}
		for _, line := range strings.Split(out, "\n") {
			name, _, _ := strings.Cut(line, "=")
			vars[name] = line
		}
		for _, want := range append(c.has, "PATH="+os.Getenv("PATH"),
			"TURNSTILE_SESSION=agent:test", "TURNSTILE_SESSION_ID=sid-1", "TURNSTILE_MESSAGE_ID=m1",
			"TURNSTILE_TURN_ID="+tn.ID, "TURNSTILE_FENCE=7", "TRACEPARENT="+tn.TraceParent) {
			name, _, _ := strings.Cut(want, "=")
			if vars[name] != want {
				t.Errorf("%v: %q, want %q", c.extra, vars[name], want)
			}
		}
		for _, name := range append(c.lack, "REDIS_URL", "TURNSTILE_HTTP_TOKEN", "TURNSTILE_GUARDIAN") {
			if line, ok := vars[name]; ok {
				t.Errorf("%v: the agent sees %s", c.extra, line)
			}
		}
	}
}

func TestGuardianHasNoSecretsEither(t *testing.T) {
	t.Parallel()
	needLinux(t)
	a := newAgent(t, Config{Command: shell(`tr '\0' ' ' </proc/$PPID/environ`)})
	out, err := runText(t.Context(), a, turn(t, ""))
	if os.Geteuid() != 0 { // only root may read it
		if err == nil {
			t.Errorf("the agent could look: %q", out)
		}
		return
	}
	if err != nil || !strings.Contains(out, "TURNSTILE_GUARDIAN=1") || strings.Contains(out, "secret") {
		t.Errorf("%q, %v", out, err)
	}
}

func TestFilesOfTheAgent(t *testing.T) {
	needLinux(t)
	// This program has a file without the close-on-exec flag, as if it had inherited one.
	fd, err := syscall.Open("/dev/null", syscall.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Close(fd) }()
	a := newAgent(t, Config{Command: shell(`ls /proc/$$/fd; grep flags /proc/$$/fdinfo/[012]`)})
	out, err := runText(t.Context(), a, turn(t, ""))
	if err != nil || !strings.HasPrefix(out, "0\n1\n2\n/proc") {
		t.Errorf("the agent has the files %q, %v", out, err)
	}
	for _, line := range strings.Split(out, "\n") {
		if i := strings.Index(line, "flags:"); i >= 0 && len(line) >= 4 && strings.ContainsAny(line[len(line)-4:len(line)-3], "4567") {
			t.Errorf("not blocking: %s", line)
		}
	}
}

func TestNew(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]Config{
		"no command":    {},
		"blank command": {Command: []string{" "}},
		"zero byte":     {Command: []string{"a\x00b"}},
		"format":        {Command: []string{"a"}, Format: "xml"},
		"REDIS_URL":     {Command: []string{"a"}, Env: []string{"REDIS_URL"}},
		"own setting":   {Command: []string{"a"}, Env: []string{"TURNSTILE_HTTP_TOKEN"}},
		"own settings":  {Command: []string{"a"}, Env: []string{"TURNSTILE_*"}},
		"no name":       {Command: []string{"a"}, Env: []string{"=b"}},
		"empty name":    {Command: []string{"a"}, Env: []string{""}},
	} {
		if _, err := New(config); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestJSONLTurnObject(t *testing.T) {
	t.Parallel()
	tn := turn(t, "hi <b>\n")
	tn.Note = "note"
	tn.History = []session.Entry{{Role: session.RoleUser, Text: "before", Turn: "t0"}}
	a := newAgent(t, Config{Format: JSONL, Command: shell(
		`read -r line; printf '{"type":"tool_start","name":"x","call_id":"1","input":%s}\n' "$line"`)})
	var got agent.Turn
	_, err := a.Run(t.Context(), emitting(tn, func(e agent.Event) {
		if err := json.Unmarshal(e.Input, &got); err != nil {
			t.Error(err)
		}
	}))
	want, _ := json.Marshal(tn)
	if have, _ := json.Marshal(got); err != nil || string(have) != string(want) {
		t.Errorf("error %v\ngot  %s\nwant %s", err, have, want)
	}
}
