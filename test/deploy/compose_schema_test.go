package deploy

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"turnstile/test/expect"
	"turnstile/test/program"
)

// merged is a part of what Docker Compose's own loader makes of the files.
type merged struct {
	Services map[string]struct {
		Image       string             `json:"image"`
		Build       *build             `json:"build"`
		PullPolicy  string             `json:"pull_policy"`
		Tmpfs       []string           `json:"tmpfs"`
		Environment map[string]*string `json:"environment"` // nil: Docker removes it from what the image has
		Volumes     []struct{ Source, Target string }
		Grace       string `json:"stop_grace_period"`
	} `json:"services"`
}

// load lets compose-go, the loader of Docker Compose, check the files against its schema, merge them, and resolve the
// environment, with further variables beside those of .env.
func load(t *testing.T, change func(text string) string, environ []string, files ...string) (m merged, err error) {
	t.Helper()
	tool, err := program.PathIn(filepath.Join(root, "tools"), "./compose")
	if err != nil {
		expect.Lacks(t, "compose-go: "+err.Error())
	}
	dir, _ := secrets(t)
	expect.OK(t, os.Mkdir(filepath.Join(dir, "deploy"), 0o700))
	for _, name := range append([]string{"deploy/worker.env"}, files...) {
		raw, err := os.ReadFile(filepath.Join(root, name))
		expect.OK(t, err)
		expect.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(change(string(raw))), 0o600))
	}
	cmd := program.Command(t, tool, environ, files...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
		return m, errors.New(string(failed.Stderr))
	}
	expect.OK(t, json.Unmarshal(out, &m))
	return m, err
}

func same(text string) string { return text }

const composeFile, agentsFile = "docker-compose.yml", "deploy/compose-agents.yml"

// Docker Compose takes the files: alone, and together.
func TestComposeSchema(t *testing.T) {
	t.Parallel()
	expect.NotQuick(t)
	alone, err := load(t, same, nil, composeFile)
	expect.OK(t, err)
	both, err := load(t, same, nil, composeFile, agentsFile)
	expect.OK(t, err)
	// One service builds an image, and the others do not ask a registry for it.
	for files, m := range map[string]merged{"one": alone, "both": both} {
		builders, targets := map[string]int{}, map[string]int{}
		for name, s := range m.Services {
			if s.Build != nil {
				builders[s.Image]++
				targets[s.Build.Target]++
			} else if name != "redis" {
				expect.Equal(t, name+"'s pull_policy", s.PullPolicy, "never")
			}
		}
		for name, s := range m.Services {
			if name != "redis" && builders[s.Image] != 1 {
				t.Errorf("with %s: %d services build the image of %s", files, builders[s.Image], name)
			}
		}
		for target, n := range targets {
			expect.Equal(t, "services that build "+target, n, 1)
		}
	}
	worker := both.Services["worker"]
	expect.Equal(t, "the image", worker.Image, "turnstile-agents")
	expect.Equal(t, "its target", worker.Build.Target, "worker-agents")
	expect.List(t, "tmpfs", worker.Tmpfs, "/tmp:exec,size=1g")
	expect.Equal(t, "the grace period", worker.Grace, alone.Services["worker"].Grace)
	stage := readDockerfile(t)["worker-agents"]
	for _, volume := range worker.Volumes { // a new volume gets the owner of the image's folder
		if !slices.ContainsFunc(stage.copies(t), func(c copied) bool { return c.to == volume.Target && c.owner == stage.all("USER")[0] }) {
			t.Errorf("the volume %s is at %s, which is not the user's in the image", volume.Source, volume.Target)
		}
	}
	expect.Equal(t, "volumes", len(worker.Volumes), 2)
	delete(alone.Services, "worker")
	for name, s := range alone.Services {
		expect.Equal(t, "the image of "+name, both.Services[name].Image, s.Image)
	}

	for from, to := range map[string]string{"    mem_limit:": "    memory_limit:", "scale: 2": "scale: two"} {
		if _, err := load(t, func(text string) string { return strings.Replace(text, from, to, 1) }, nil, composeFile); err == nil {
			t.Errorf("it takes %q", to)
		}
	}
}

// What nobody sets is left to the image: the worker's containers get this file's own variables and no others. A variable without
// a value would take the image's away. What is set reaches the worker.
func TestComposeLeavesSettingsToTheImage(t *testing.T) {
	t.Parallel()
	expect.NotQuick(t)
	var given []string
	names := workerEnv(t)
	for _, name := range names {
		given = append(given, name+"=given-as-"+name)
	}
	for _, files := range [][]string{{composeFile}, {composeFile, agentsFile}} {
		unset, err := load(t, same, nil, files...)
		expect.OK(t, err)
		// docs/compose-secrets.sh has set the token in .env.
		own := []string{"REDIS_URL", "TURNSTILE_HTTP_ADDR", "TURNSTILE_HTTP_TOKEN", "TURNSTILE_LOG_FORMAT", "TURNSTILE_STOP_TIMEOUT"}
		expect.List(t, "what is not left to the image", slices.Sorted(maps.Keys(unset.Services["worker"].Environment)), own...)
		set, err := load(t, same, given, files...)
		expect.OK(t, err)
		for _, name := range names {
			if got := set.Services["worker"].Environment[name]; got == nil || *got != "given-as-"+name {
				t.Errorf("%s does not reach the worker: %v", name, got)
			}
		}
	}
}
