package cli

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"turnstile/internal/process/command"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

// aThread began on 2026-11-22, UTC.
const aThread = "01a202dc-d198-74f1-ba84-5dd3d663644b"

// codexTurn is a turn of Codex with a stream and a rollout from the test.
type codexTurn struct {
	t       *testing.T
	rollout string // the file
	stream  *stream
	told    []string

	isolated string // the HOME of an isolated agent
}

func newCodexTurn(t *testing.T, day string) *codexTurn {
	t.Helper()
	home := t.TempDir()
	c := &codexTurn{t: t, rollout: filepath.Join(home, "sessions", day, "rollout-2026-11-22T10-00-00-"+aThread+".jsonl")}
	if err := os.MkdirAll(filepath.Dir(c.rollout), 0o700); err != nil {
		t.Fatal(err)
	}
	c.begin(home, "")
	return c
}

// begin begins a turn in a resumed thread, or in a new one.
func (c *codexTurn) begin(home, resumed string) {
	c.told = nil
	c.stream = &stream{
		logger: slog.New(slog.DiscardHandler),
		spec:   command.Spec{Argv: []string{"env", "CODEX_HOME=" + home, "codex"}, Home: c.isolated},
		state:  state{Session: resumed},
		emit: func(e agent.Event) {
			if e.Type != session.EventState && e.Type != session.EventUsage {
				c.told = append(c.told, strings.Trim(fmt.Sprint(e.Type, " ", e.Name, e.Text, string(e.Input), e.Error), " \n"))
			}
		},
	}
	c.stream.decoder = codex.decoder(c.stream)
	c.says(`{"type":"thread.started","thread_id":"` + aThread + `"}`)
}

func (c *codexTurn) home() string {
	return strings.Split(c.rollout, "/sessions/")[0]
}

// says writes to the stream.
func (c *codexTurn) says(lines ...string) {
	c.t.Helper()
	for _, line := range lines {
		if err := c.stream.line([]byte(line)); err != nil {
			c.t.Fatal(err)
		}
	}
}

func (c *codexTurn) message(text string) {
	c.t.Helper()
	c.says(`{"type":"item.completed","item":{"id":"item_1","type":"agent_message","text":"` + text + `"}}`)
}

// keeps writes to the rollout.
func (c *codexTurn) keeps(lines ...string) {
	c.t.Helper()
	f, err := os.OpenFile(c.rollout, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.WriteString(strings.Join(lines, "\n") + "\n")
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *codexTurn) want(want ...string) {
	c.t.Helper()
	if got := strings.Join(c.told, "\n"); got != strings.Join(want, "\n") {
		c.t.Errorf("told\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}

func itemOf(of, id string) string {
	return fmt.Sprintf(`{"type":"event_msg","payload":{"type":"item_completed","item":{"type":%q,"id":%q}}}`, of, id)
}

func callOf(id, name, arguments string) string {
	return fmt.Sprintf(`{"type":"response_item","payload":{"type":"function_call","name":%q,"arguments":%q,"call_id":%q}}`, name, arguments, id)
}

func outputOf(id, told string) string {
	return fmt.Sprintf(`{"type":"response_item","payload":{"type":"function_call_output","call_id":%q,"output":%q}}`, id, told)
}

const denied = "Chunk ID: 1\nWall time: 0.0000 seconds\nProcess exited with code 1\nOutput:\ntouch: Read-only file system\n"

const theEnd = `{"type":"turn.completed"}`

// A failure that the stream leaves out is emitted before the next message. One that the stream
// reports is emitted once, and successes are left to the stream.
func TestUntoldTools(t *testing.T) {
	t.Parallel()
	c := newCodexTurn(t, "2026/11/22")
	c.keeps(
		itemOf("UserMessage", "u"), itemOf("AgentMessage", "m1"),
		callOf("c1", "exec_command", `{"cmd":"touch \"it's\""}`), outputOf("c1", denied),
		callOf("c2", "exec_command", `{"cmd":"false"}`), itemOf("CommandExecution", "c2"), outputOf("c2", strings.Replace(denied, "touch", "told", 1)),
		callOf("c3", "exec_command", `{"cmd":"true"}`), outputOf("c3", strings.Replace(denied, "code 1", "code 0", 1)),
		callOf("c4", "exec_command", `{"cmd":"sleep 9"}`), outputOf("c4", "Chunk ID: 1\nProcess running with session ID 7\nOutput:\nProcess exited with code 1\n"),
		callOf("c5", "exec_command", `{"cmd":"it 'runs'"}`), outputOf("c5", denied),
		callOf("c6", "exec_command", `{"cmd":"ls"}`), outputOf("c6", "approval policy is Never; reject command"),
		`{"payload":{"type":"custom_tool_call","name":"apply_patch","input":"*** Begin","call_id":"c7"}}`,
		`{"payload":{"type":"custom_tool_call_output","call_id":"c7","output":"patch rejected: read-only"}}`,
		callOf("c8", "conjure", `{"a":1}`), outputOf("c8", "unsupported call: conjure"),
		callOf("c9", "update_plan", `{}`), outputOf("c9", "Plan updated"),
		callOf("c10", "exec_command", `{bad`), outputOf("c10", "failed to parse function arguments: oh"),
		`{"payload":{"type":"function_call","arguments":{"no":"text"},"call_id":"c11"}}`, outputOf("c11", denied),
		`no JSON, with a _call in it`,
		itemOf("AgentMessage", "m2"),
		callOf("c12", "exec_command", `{"cmd":"touch b"}`), outputOf("c12", denied),
		itemOf("AgentMessage", "m3"),
	)
	c.message("one")
	c.want("text one")
	c.says(`{"type":"item.started","item":{"id":"item_2","type":"command_execution","command":"/bin/bash -lc \"it 'runs'\""}}`)
	c.told = nil
	c.message("two")
	c.want(
		`tool_start command_execution{"command":"touch \"it's\""}`, "tool_end exit code 1: touch: Read-only file system",
		`tool_start command_execution{"command":"ls"}`, "tool_end approval policy is Never; reject command",
		`tool_start apply_patch"*** Begin"`, "tool_end patch rejected: read-only",
		`tool_start conjure{"a":1}`, "tool_end unsupported call: conjure",
		`tool_start command_execution{"command":"{bad"}`, "tool_end failed to parse function arguments: oh",
		"text two",
	)
	c.told = nil
	c.message("three")
	c.want(`tool_start command_execution{"command":"touch b"}`, "tool_end exit code 1: touch: Read-only file system", "text three")

	// After the last message a tool would take the reply away.
	c.told = nil
	c.keeps(callOf("c13", "exec_command", `{"cmd":"touch c"}`), outputOf("c13", denied))
	c.says(theEnd)
	c.want("notice exec_command failed: touch c: exit code 1: touch: Read-only file system")

	// The next turn emits only its own.
	c.begin(c.home(), aThread)
	c.keeps(itemOf("UserMessage", "u"), callOf("d1", "exec_command", `{"cmd":"touch d"}`), outputOf("d1", denied))
	c.says(theEnd)
	c.want(`tool_start command_execution{"command":"touch d"}`, "tool_end exit code 1: touch: Read-only file system")
}

// Codex names the directory by its own time zone.
func TestRolloutOfAnotherDay(t *testing.T) {
	t.Parallel()
	for _, day := range []string{"2026/11/21", "2026/11/23"} {
		c := newCodexTurn(t, day)
		c.keeps(itemOf("UserMessage", "u"), callOf("c1", "exec_command", `{"cmd":"ls"}`), outputOf("c1", denied), itemOf("AgentMessage", "m1"))
		c.message("one")
		c.want(`tool_start command_execution{"command":"ls"}`, "tool_end exit code 1: touch: Read-only file system", "text one")
	}
}

// A useless rollout takes nothing away, and is not awaited.
func TestUselessRollouts(t *testing.T) {
	t.Parallel()
	call := []string{callOf("c1", "exec_command", `{"cmd":"ls"}`), outputOf("c1", denied)}
	for name, make := range map[string]func(c *codexTurn) error{
		"none":        func(*codexTurn) error { return nil },
		"a pipe":      func(c *codexTurn) error { return syscall.Mkfifo(c.rollout, 0o600) },
		"a directory": func(c *codexTurn) error { return os.Mkdir(c.rollout, 0o700) },
		"a pipe for a directory": func(c *codexTurn) error {
			dir := filepath.Dir(c.rollout)
			return errors.Join(os.Remove(dir), syscall.Mkfifo(dir, 0o600))
		},
		"a line without an end": func(c *codexTurn) error {
			c.keeps(itemOf("UserMessage", "u"))
			return os.Truncate(c.rollout, 1<<40)
		},
		"a link": func(c *codexTurn) error {
			c.keeps(append(call, itemOf("AgentMessage", "m"))...)
			other := filepath.Join(c.home(), "other")
			return errors.Join(os.Rename(c.rollout, other), os.Symlink(other, c.rollout))
		},
		"a link to a directory elsewhere": func(c *codexTurn) error {
			c.keeps(append(call, itemOf("AgentMessage", "m"))...)
			dir, other := filepath.Dir(c.rollout), filepath.Join(c.t.TempDir(), "other")
			return errors.Join(os.Rename(dir, other), os.Symlink(other, dir))
		},
		"a link that leaves an isolated HOME": func(c *codexTurn) error {
			c.keeps(append(call, itemOf("AgentMessage", "m"))...)
			c.isolated = filepath.Join(c.t.TempDir(), "home")
			own := filepath.Join(c.isolated, ".codex")
			err := errors.Join(os.Mkdir(c.isolated, 0o700), os.Symlink(c.home(), own))
			c.begin(own, "")
			return err
		},
		"without items": func(c *codexTurn) error { c.keeps(call...); return nil },
		"that a resumed thread did not have": func(c *codexTurn) error {
			c.begin(c.home(), aThread)
			c.keeps(append(call, itemOf("AgentMessage", "m"))...)
			return nil
		},
		"of another thread": func(c *codexTurn) error {
			other := aThread[:35] + "0"
			err := os.WriteFile(strings.Replace(c.rollout, aThread, other, 1), nil, 0o600)
			c.begin(c.home(), other)
			c.keeps(append(call, itemOf("AgentMessage", "m"))...)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCodexTurn(t, "2026/11/22")
			if err := make(c); err != nil {
				t.Fatal(err)
			}
			c.message("one")
			c.says(theEnd)
			c.want("text one")
		})
	}
}

// A message waits once for a late rollout. Later lines of the rollout are emitted at the end.
func TestLateRollout(t *testing.T) {
	t.Parallel()
	c := newCodexTurn(t, "2026/11/22")
	c.keeps(itemOf("UserMessage", "u"))
	c.message("one")
	c.message("two")
	c.want("text one", "text \n\ntwo")
	c.told = nil
	c.keeps(callOf("c1", "exec_command", `{"cmd":"ls"}`), outputOf("c1", denied))
	c.says(`{"type":"turn.failed"}`)
	c.want("notice exec_command failed: ls: exit code 1: touch: Read-only file system")
}

func TestCodexHome(t *testing.T) {
	t.Parallel()
	for want, spec := range map[string]command.Spec{
		"":             {Argv: []string{"codex"}},
		"/home/.codex": {Argv: []string{"codex", "CODEX_HOME=/no"}, Env: []string{"PATH=/bin", "HOME=/home"}},
		"/own":         {Argv: []string{"codex"}, Env: []string{"CODEX_HOME=/own", "HOME=/home"}},
		"/env":         {Argv: []string{"/usr/bin/env", "A=b", "CODEX_HOME=/env", "codex"}, Env: []string{"CODEX_HOME=/own"}},
		"/work/rel":    {Argv: []string{"codex"}, Env: []string{"CODEX_HOME=rel"}, Dir: "/work"},
	} {
		if got, _ := homeOf(spec, "CODEX_HOME", ".codex"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A turn reads a bounded part of an agent's files, however many messages the agent writes.
func TestRolloutsThatAreLookedAtWithoutEnd(t *testing.T) {
	t.Parallel()
	t.Run("names", func(t *testing.T) {
		t.Parallel()
		c := newCodexTurn(t, "2026/11/22")
		for n := range 5_000 {
			if err := os.Mkdir(filepath.Join(filepath.Dir(c.rollout), fmt.Sprint(n)), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 * maxNames / 5_000 {
			c.message("x")
		}
		if n := c.stream.decoder.(*codexLines).rollout.names; n < maxNames || n > maxNames+1024 {
			t.Errorf("%d names were looked at", n)
		}
	})
	t.Run("a line", func(t *testing.T) {
		t.Parallel()
		c := newCodexTurn(t, "2026/11/22")
		c.keeps(strings.Repeat("x", command.MaxLine-10_000))
		for size := int64(command.MaxLine - 10_000); size > command.MaxLine-10_100; size-- {
			if err := os.Truncate(c.rollout, size); err != nil {
				t.Fatal(err)
			}
			c.message("x")
		}
		r := c.stream.decoder.(*codexLines).rollout
		if r.again < maxAgain || r.again > maxAgain+command.MaxLine || r.path() != "" {
			t.Errorf("%d MiB were read", r.again>>20)
		}
	})
}
