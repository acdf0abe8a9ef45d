package program_test

import (
	"errors"
	"strings"
	"testing"

	"turnstile/internal/program/config"
	"turnstile/pkg/agent/echo"
	"turnstile/pkg/program"
)

// A Go agent is in the worker's process, so an isolation would protect nobody.
func TestRunRefusesAnIsolation(t *testing.T) {
	t.Setenv("TURNSTILE_ISOLATION", "confined")
	t.Setenv("TURNSTILE_WORKSPACE_DIR", t.TempDir())
	err := program.Run(t.Context(), echo.New())
	if !errors.Is(err, config.ErrInvalid) || !strings.Contains(err.Error(), "TURNSTILE_ISOLATION is for the program worker") || program.ExitCode(err) != 2 {
		t.Errorf("%v", err)
	}
}
