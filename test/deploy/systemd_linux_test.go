package deploy

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"turnstile/internal/program/config"
	"turnstile/test/expect"
	"turnstile/test/program"
)

const unitDir = root + "/deploy/systemd/"

// unit reads the settings of a unit, in the order of the file.
func unit(t *testing.T, name string) map[string][]string {
	t.Helper()
	raw, err := os.ReadFile(unitDir + name)
	expect.OK(t, err)
	settings := map[string][]string{}
	for line := range strings.Lines(string(raw)) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && key[0] != '#' {
			settings[key] = append(settings[key], value)
		}
	}
	return settings
}

// analyze runs systemd-analyze, which needs no running systemd.
func analyze(t *testing.T, args ...string) (string, error) {
	t.Helper()
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		expect.Lacks(t, "systemd-analyze (Debian's systemd)")
	}
	out, err := exec.CommandContext(t.Context(), "systemd-analyze", append(args, "--no-pager")...).CombinedOutput()
	return string(out), err
}

// systemd knows every setting of the units, and takes every value.
func TestUnitsAreValid(t *testing.T) {
	t.Parallel()
	expect.NotQuick(t)
	check := func(name, program, more string) string {
		raw, err := os.ReadFile(unitDir + "turnstile-" + name + ".service")
		expect.OK(t, err)
		path := filepath.Join(t.TempDir(), "turnstile-"+name+".service")
		text := strings.Replace(string(raw), "/usr/local/bin/"+name, program, 1) + more // it must exist
		expect.OK(t, os.WriteFile(path, []byte(text), 0o600))
		out, err := analyze(t, "verify", "--man=no", path)
		if err != nil {
			out += err.Error()
		}
		return out
	}
	for _, name := range []string{"worker", "gateway"} {
		path := program.Build(t, "turnstile/cmd/"+name)
		expect.Equal(t, name+": systemd-analyze verify", check(name, path, ""), "")
		for _, wrong := range []string{"[Service]\nTimeoutStopSecs=75s\n", "[Service]\nKillMode=gently\n"} {
			if out := check(name, path, wrong); out == "" {
				t.Errorf("%s: systemd-analyze verify takes %q", name, wrong)
			}
		}
	}
}

// No later change opens the units: each is at most as exposed as systemd-analyze says today.
func TestUnitsAreHardened(t *testing.T) {
	t.Parallel()
	for name, most := range map[string]int{"worker": 32, "gateway": 11} {
		path := unitDir + "turnstile-" + name + ".service"
		if out, err := analyze(t, "security", "--offline=true", fmt.Sprint("--threshold=", most), path); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
		if _, err := analyze(t, "security", "--offline=true", fmt.Sprint("--threshold=", most-1), path); err == nil {
			t.Errorf("%s is below %d: lower the number here", name, most)
		}
	}
}

// systemd waits for the drain of the program's defaults, and the worker knows for how long.
func TestUnitsWaitForTheDrain(t *testing.T) {
	t.Parallel()
	worker, gateway := unit(t, "turnstile-worker.service"), unit(t, "turnstile-gateway.service")
	w, err := config.LoadWorker(append(environment(worker), "TURNSTILE_AGENT=echo"), config.Options{})
	expect.OK(t, err) // its drain fits into TURNSTILE_STOP_TIMEOUT
	g, err := config.LoadGateway(environment(gateway), config.Options{})
	expect.OK(t, err)
	for what, pair := range map[string][2]time.Duration{
		"the worker": {waits(t, worker), w.StopTimeout}, "the gateway": {waits(t, gateway), g.Drain + 5*time.Second},
	} {
		expect.Equal(t, "TimeoutStopSec of "+what, pair[0], pair[1])
	}
	if need := w.DrainTimeout + w.InterruptGrace + 5*time.Second; w.StopTimeout <= need {
		t.Errorf("TURNSTILE_STOP_TIMEOUT is %v, the drain needs %v", w.StopTimeout, need)
	}
	// Else systemd sends SIGTERM to the agents, too; 75 is the exit code after SIGHUP.
	expect.List(t, "KillMode", worker["KillMode"], "mixed")
	expect.List(t, "RestartForceExitStatus", worker["RestartForceExitStatus"], "75")
}

func environment(unit map[string][]string) []string {
	return strings.Fields(strings.Join(unit["Environment"], " "))
}

func waits(t *testing.T, unit map[string][]string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(strings.Join(unit["TimeoutStopSec"], " "))
	expect.OK(t, err)
	return d
}
