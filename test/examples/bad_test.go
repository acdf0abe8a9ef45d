package examples

import (
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"turnstile"
	"turnstile/pkg/agent/exec"
	"turnstile/pkg/session"
	"turnstile/test/expect"
)

func sh(script string) []string { return []string{"sh", "-c", script} }

// moody is a command that replies "fine" to the message "good", and runs the script for others.
func moody(format exec.Format, script string) []string {
	if format == exec.JSONL {
		return sh(`read -r turn; case $turn in *'"text":"good"'*) echo '{"type":"text","text":"fine"}'; exit 0;; esac; ` + script)
	}
	return sh(`if [ "$(cat)" = good ]; then echo fine; exit 0; fi; ` + script)
}

// A command's mistake fails its turn with a sentence, and the session's next message runs.
func TestBadAgentsLeaveNoStuckSession(t *testing.T) {
	t.Parallel()
	const words = "; echo last words >&2; "
	for name, c := range map[string]struct {
		format  exec.Format
		script  string
		want    string
		timeout time.Duration
	}{
		"prints nothing":               {exec.Text, "true" + words, "the agent ended without a reply: last words", 0},
		"prints newlines":              {exec.Text, "echo; echo" + words, "the agent ended without a reply: last words", 0},
		"prints no event":              {exec.JSONL, "true" + words, "the agent ended without a reply: last words", 0},
		"10 MiB on a line":             {exec.JSONL, "true" + words + "head -c 10485760 /dev/zero | tr '\\0' x; echo", "line 1 of the command's output is longer than 8 MiB: last words", 0},
		"10 MiB on a line of text":     {exec.Text, "true" + words + "head -c 10485760 /dev/zero | tr '\\0' x; echo", "the command wrote more than 8 MiB: last words", 0},
		"invalid UTF-8":                {exec.Text, "true" + words + `printf 'so far\377\n'`, "the command's output is not UTF-8 (byte 7): last words", 0},
		"invalid UTF-8 in a line":      {exec.JSONL, "true" + words + `printf '{"type":"text","text":"\377"}\n'`, "line 1 of the command's output: it is not UTF-8: last words", 0},
		"endless text, deaf":           {exec.Text, `trap "" INT` + words + "exec yes", "the command wrote more than 8 MiB: last words", 0},
		"endless lines that are none":  {exec.JSONL, "true" + words + "exec yes", "line 1 of the command's output: it is not a JSON object with an event: invalid character 'y' looking for beginning of value: last words", 0},
		"endless events":               {exec.JSONL, "true" + words + `exec yes '{"type":"text","text":"la la la la la la la la la la la la la la la la la la la la"}'`, "line 142180 of the command's output: with it the turn has more than 8 MiB of text: last words", 0},
		"endless tools":                {exec.JSONL, "true" + words + `exec yes '{"type":"tool_start","name":"x","call_id":"1","input":"` + strings.Repeat("la ", 10_000) + `"}'`, "the command wrote more than 64 MiB: last words", 0},
		"endless stderr":               {exec.Text, "exec yes last words >&2", "the agent took too long: ended after 1s: last words", time.Second},
		"exit code":                    {exec.Text, "echo so far" + words + "exit 3", "exit status 3: last words", 0},
		"exit code after a result":     {exec.JSONL, `echo '{"type":"result","text":"x"}'` + words + "exit 3", "exit status 3: last words", 0},
		"try again, in vain":           {exec.Text, "true" + words + "exit 75", "exit status 75: last words", 0},
		"dies of a signal":             {exec.Text, "true" + words + "kill -SEGV $$", "killed by signal: segmentation fault: last words", 0},
		"closes stdout":                {exec.Text, "echo so far" + words + "exec >&-; sleep 1000", "the command closed its output and kept running: last words", 0},
		"closes stdout, deaf":          {exec.JSONL, `trap "" INT` + words + "exec >&-; sleep 1000", "the command closed its output and kept running: last words", 0},
		"never ends":                   {exec.Text, "sleep 1000", "the agent took too long: ended after 1s", time.Second},
		"never ends, deaf":             {exec.Text, `trap "" INT; sleep 1000`, "the agent took too long: ended after 1s", time.Second},
		"never ends, leaves a process": {exec.Text, `trap "" INT; sleep 1000 & sleep 1000`, "the agent took too long: ended after 1s", time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAgent(t, exec.Config{Command: moody(c.format, c.script), Format: c.format, Grace: 50 * time.Millisecond})
			s := newConversation(t, a, c.timeout)
			end := s.says("be bad", func(session.Event) {})
			if end.Status != session.StatusFailed || end.Why() != c.want && (c.timeout == 0 || !strings.HasPrefix(end.Why(), c.want)) {
				t.Errorf("it ended as %s: %.300s; want %s", end.Status, end.Why(), c.want)
			}
			if c.timeout == 0 {
				s.wants("good", "fine")
				return
			}
			expect.Soon(t, "a turn within its time on a busy machine", func() bool {
				end := s.says("good", func(session.Event) {})
				return end.Status == session.StatusDone && end.Reply == "fine"
			})
		})
	}
}

// A message whose agent's program is missing waits, and runs once it is there.
func TestMissingProgramLeavesNoStuckSession(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "sh")
	a := newAgent(t, exec.Config{Command: append([]string{program}, moody(exec.Text, "exit 9")[1:]...)})
	s := newConversation(t, a, 0)
	receipt, err := s.client.Session(s.key).Send(s.ctx, turnstile.Message{Text: "good"})
	if err != nil {
		t.Fatal(err)
	}
	expect.Soon(t, "the worker leaves the agent alone", func() bool {
		return strings.HasSuffix(s.worker.Status().Unable["default"], "no such file or directory")
	})
	shell, err := osexec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(shell, program); err != nil {
		t.Fatal(err)
	}
	end, err := s.client.Session(s.key).Wait(s.ctx, receipt.ID)
	if err != nil || end.Status != session.StatusDone || end.Reply != "fine" {
		t.Errorf("it ended as %s (%s) with %q, %v", end.Status, end.Why(), end.Reply, err)
	}
}

// A command that ignores SIGINT is killed, and its turn ends as stopped.
func TestStopOfADeafAgent(t *testing.T) {
	t.Parallel()
	for format, script := range map[exec.Format]string{
		exec.Text:  `trap "" INT TERM; echo up .; sleep 1000`,
		exec.JSONL: `trap "" INT TERM; echo '{"type":"text","text":"up ."}'; sleep 1000`,
	} {
		t.Run(string(format), func(t *testing.T) {
			t.Parallel()
			a := newAgent(t, exec.Config{Command: moody(format, script), Format: format, Grace: 50 * time.Millisecond})
			s := newConversation(t, a, 0)
			said := false
			end := s.says("be bad", func(e session.Event) {
				if said || e.Type != session.EventText {
					return
				}
				said = true
				if _, err := s.client.Command(s.ctx, s.key, "/stop", ""); err != nil {
					t.Error(err)
				}
			})
			if end.Status != session.StatusStopped || !strings.HasPrefix(end.Reply, "up") {
				t.Errorf("it ended as %s (%s): %q", end.Status, end.Why(), end.Reply)
			}
			s.wants("good", "fine")
		})
	}
}
