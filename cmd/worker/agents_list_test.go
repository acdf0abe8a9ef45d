package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"turnstile"
	"turnstile/internal/process/workspace"
	"turnstile/test/expect"
	"turnstile/test/modelserver"
)

func agentsFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "agents.json")
	expect.OK(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// Each mistake in the file is one line, before a worker takes a message.
func TestAgentsCheck(t *testing.T) {
	t.Parallel()
	good := agentsFile(t, `{"b": {"sessions": ["b:*"], "agent": "echo"}, "a": {"sessions": ["a:*"], "agent": "exec", "agent_command": "cat"}}`)
	r := call(t, nil, "agents", "check", "--agents-file", good).want(t, exitOK)
	expect.Equal(t, "output", r.out, good+" is right. Its agents: a, b\n")
	shared := agentsFile(t, `{"a": {"sessions": ["a:*"], "agent": "claude", "agent_command": "cat"}, "b": {"sessions": ["b:*"], "agent": "claude", "agent_command": "cat"},
		"c": {"sessions": ["c:*"], "agent": "claude", "agent_command": "cat", "env": {"ANTHROPIC_API_KEY": {"from": "C_KEY"}}}}`)
	r = call(t, []string{"ANTHROPIC_API_KEY=k", "C_KEY=c"}, "agents", "check", "--agents-file", shared).want(t, exitOK)
	expect.Equal(t, "warning", r.err, `worker: the agents a, b share the key ANTHROPIC_API_KEY of the worker's environment: give each its own with "env": {"ANTHROPIC_API_KEY": {"from": "VARIABLE"}}`+"\n")
	bad := agentsFile(t, `{
		"a": {"sessions": ["x:*"], "agent": "exec", "agent_command": "no-such-agent"},
		"b": {"sessions": ["y:*"], "agent": "model", "model": "m", "model_file": "/gone"}}`)
	for _, args := range [][]string{{"agents", "check", "--agents-file", bad}, {"--agents-file", bad}} {
		r := call(t, []string{"REDIS_URL=redis://127.0.0.1:1"}, args...).want(t, exitUsage)
		lines := strings.Split(strings.TrimSpace(r.err), "\n")
		expect.Equal(t, "lines", len(lines), 2)
		for i, want := range []string{
			`worker: setting TURNSTILE_AGENTS_FILE: agent "a": agent_command: `,
			`worker: setting TURNSTILE_AGENTS_FILE: agent "b": model_file: open /gone: no such file or directory: correct the path, or let the program read it`,
		} {
			if !strings.HasPrefix(lines[i], want) {
				t.Errorf("line %q, want %s", lines[i], want)
			}
		}
	}
	r = call(t, nil, "agents", "check").want(t, exitUsage)
	expect.Equal(t, "without a file", r.err, "worker: setting TURNSTILE_AGENTS_FILE is not set: name the file to check\n")
}

// An operator's shell need not have the agents' keys, but a worker's must.
func TestOperatorsWithoutKeys(t *testing.T) {
	t.Parallel()
	url, c := newRedis(t)
	root := t.TempDir()
	dir, err := workspace.Root{Path: root}.Directory("a:1")
	expect.OK(t, err)
	file := agentsFile(t, fmt.Sprintf(`{
		"a": {"sessions": ["a:*"], "agent": "model", "model": "m", "model_key_env": "GONE", "workspace_dir": %q},
		"b": {"sessions": ["b:*"], "agent": "model", "model": "m", "model_key_file": "/gone"}}`, root))
	environ := []string{"REDIS_URL=" + url, "TURNSTILE_AGENTS_FILE=" + file, "TURNSTILE_MODEL_KEY_FILE=/gone"}
	wrote(t, c, "a:1", "web/alice", "hello", "")
	list := call(t, environ, "agents").want(t, exitOK).out
	expect.Equal(t, "the list", list, "AGENT  KIND   SESSIONS  WORKERS\na      model  a:*       0\nb      model  b:*       0\n")
	for _, args := range [][]string{{"export", "--sender", "web/alice"}, {"forget", "--sender", "web/alice"}} {
		if r := call(t, environ, args...).want(t, exitOK); !strings.Contains(r.out, filepath.Base(dir)) {
			t.Errorf("%s: %s", args, r.out)
		}
	}
	for _, args := range [][]string{{}, {"agents", "check"}} {
		r := call(t, environ[:2], args...).want(t, exitUsage)
		const entry = "worker: setting TURNSTILE_AGENTS_FILE: agent "
		want := entry + `"a": model_key_env names the variable "GONE", which is not set` + "\n" +
			entry + `"b": model_key_file cannot be used: open /gone: no such file or directory: correct the path, or let the program read it` + "\n"
		expect.Equal(t, fmt.Sprint(args), r.err, want)
	}
}

// Five bots with five prompts and models are one worker. A SIGHUP with a mistake in the file is
// refused, and the worker goes on.
func TestFiveBots(t *testing.T) {
	t.Parallel()
	model := modelserver.New(t)
	model.Otherwise(func(r modelserver.Request) modelserver.Response {
		key := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		return modelserver.Reply(fmt.Sprintf("%s, %s, %s", r.Model, r.Messages[0].Text(), key))
	})
	environ, entries := []string{}, map[string]any{}
	for i := range 5 {
		name := fmt.Sprintf("bot%d", i)
		environ = append(environ, fmt.Sprintf("KEY%d=secret%d", i, i))
		entries[name] = map[string]any{
			"sessions": []string{name + ":*"}, "agent": "model", "model": "model" + name, "model_url": model.URL(),
			"model_file":    agentsFile(t, fmt.Sprintf(`{"system_prompt": "You are %s."}`, name)),
			"model_key_env": fmt.Sprintf("KEY%d", i),
		}
	}
	text, err := json.Marshal(entries)
	expect.OK(t, err)
	file := agentsFile(t, string(text))
	url, c := newRedis(t)
	cmd, s := process(t, append(environ, "REDIS_URL="+url, "TURNSTILE_AGENTS_FILE="+file))
	replies := func(key string) {
		t.Helper()
		for i := range 5 {
			chat := c.Session(fmt.Sprintf("bot%d:%s", i, key))
			sent, err := chat.Send(limited(t), turnstile.Message{Text: "hello"})
			expect.OK(t, err)
			o, err := chat.Wait(limited(t), sent.ID)
			expect.OK(t, err)
			expect.Equal(t, chat.Key(), o.Reply, fmt.Sprintf("modelbot%d, You are bot%d., secret%d", i, i, i))
		}
	}
	replies("1")
	expect.OK(t, os.WriteFile(file, []byte(strings.Replace(string(text), `"agent"`, `"agnet"`, 1)), 0o600))
	sendSignals(t, cmd.Process, syscall.SIGHUP)
	s.Await(t, "SIGHUP is ignored")
	replies("2")
	list := call(t, []string{"REDIS_URL=" + url}, "agents").want(t, exitOK).out
	if want := "AGENT  KIND  SESSIONS  WORKERS\nbot0   -     -         1\n"; !strings.HasPrefix(list, want) {
		t.Errorf("the list is\n%s, want\n%s", list, want)
	}
	expect.OK(t, os.WriteFile(file, text, 0o600))
	sendSignals(t, cmd.Process, syscall.SIGHUP)
	exits(t, cmd, s, exitRestart)
}
