package model

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"turnstile/pkg/agent"
	"turnstile/test/expect"
)

// A tool is isolated, and works in its session's directory unless it has another one.
func TestToolsAreIsolated(t *testing.T) {
	t.Parallel()
	work := filepath.Join(t.TempDir(), "work")
	config := Config{Isolation: agent.Isolation{Level: agent.IsolationWrapper, Workspace: work, Wrapper: []string{"env", "WRAPPED={workspace}"}}}
	tool := shell("x", `echo "$WRAPPED $(pwd)"`)
	e := use(t, config, tool, `{}`)
	wrapped, dir, _ := strings.Cut(strings.Trim(string(e.Output), `"`), " ")
	if wrapped != dir || filepath.Dir(dir) != work {
		t.Errorf("%s %s", e.Output, e.Error)
	}
	tool.Dir = t.TempDir()
	e = use(t, config, tool, `{}`)
	expect.Equal(t, "in another directory", string(e.Output), `"`+wrapped+" "+tool.Dir+`"`)

	expect.OK(t, os.RemoveAll(work))
	expect.OK(t, os.WriteFile(work, nil, 0o600))
	e = use(t, config, tool, `{}`)
	if !strings.HasPrefix(e.Error, "could not start the tool: could not make the session's directory: ") {
		t.Errorf("without a workspace: %s %q", e.Output, e.Error)
	}
}
