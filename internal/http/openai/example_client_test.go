package openai_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"turnstile/test/expect"
	"turnstile/test/program"
)

// exampleClient installs examples/openai-client with OpenAI's SDK of npm. Without node or a package
// registry the example is not checked.
func exampleClient(t *testing.T) (dir string) {
	t.Helper()
	expect.NotQuick(t)
	const source = "../../../examples/openai-client"
	dir = t.TempDir()
	for _, name := range []string{"package.json", "client.mjs"} {
		data, err := os.ReadFile(filepath.Join(source, name))
		expect.OK(t, err)
		expect.OK(t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	npm := exec.CommandContext(ctx, "npm", "install", "--prefer-offline", "--no-audit", "--no-fund", "--ignore-scripts")
	npm.Dir, npm.WaitDelay = dir, time.Second
	if said, err := npm.CombinedOutput(); err != nil {
		t.Skipf("NOT CHECKED: examples/openai-client, because npm cannot install the SDK: %v\n%s", err, said)
	}
	return dir
}

// The example runs with OpenAI's SDK for JavaScript, and resumes its stream when its gateway is
// killed.
func TestExampleClient(t *testing.T) {
	t.Parallel()
	dir := exampleClient(t)
	p := newPrograms(t)
	p.worker()
	gateway, _, here := p.gateway()
	_, _, elsewhere := p.gateway()
	node, err := exec.LookPath("node")
	expect.OK(t, err) // npm is there
	cmd := program.Command(t, node, []string{"OPENAI_BASE_URL=" + here + "/v1", "OPENAI_API_KEY=secret", "ELSEWHERE=" + elsewhere + "/v1"}, "client.mjs")
	cmd.Dir = dir
	client := program.Start(t, cmd)
	expect.Soon(t, "it streams", func() bool { return strings.Count(client.Output.String(), "delta:") >= 3 })
	gateway.Kill()
	expect.Equal(t, "exit code", client.ExitCode(), 0)
	said := client.Output.String()
	for _, line := range []string{
		"created: echo: hello\n", "continued: echo: and again\n", "polled: echo: later\n", "cancelled: cancelled\n", "chat: echo: a word or two\n",
		"streamed: echo: a reply that takes its time to arrive | echo: a reply that takes its time to arrive | resumed 1\n",
	} {
		if !strings.Contains(said, line) {
			t.Errorf("it lacks %q", line)
		}
	}
	if t.Failed() {
		t.Log(said)
	}
}
