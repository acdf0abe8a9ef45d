package main

import (
	"strings"
	"testing"

	"turnstile/internal/process/confine"
)

// A path that does not exist is refused at the start, and so is a kernel that cannot confine.
func TestCheckConfined(t *testing.T) {
	t.Parallel()
	err := checkNamed(load(t, map[string]string{
		"TURNSTILE_AGENT": "exec", "TURNSTILE_AGENT_COMMAND": "cat", "TURNSTILE_ISOLATION": "confined", "TURNSTILE_WORKSPACE_DIR": t.TempDir(),
		"TURNSTILE_CONFINED_READ": "/usr:/gone",
	}))
	want := "setting TURNSTILE_CONFINED_READ: stat /gone: no such file or directory"
	if kernel := confine.Check(); kernel != nil {
		want = "setting TURNSTILE_ISOLATION=confined: " + kernel.Error() + "\n" + want
	}
	if err == nil || err.Error() != want || strings.Count(want, "\n") > 1 {
		t.Errorf("%v, want %s", err, want)
	}
}
