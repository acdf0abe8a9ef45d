package deploy

import (
	"os"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"turnstile/test/expect"
)

// workflow has the fields of a hosted-CI workflow that are tested here; `make lint` checks its
// grammar with actionlint.
type workflow struct {
	On          map[string]any    `yaml:"on"`
	Permissions map[string]string `yaml:"permissions"`
	Jobs        map[string]struct {
		Container string            `yaml:"container"`
		Env       map[string]string `yaml:"env"`
		Strategy  struct {
			Matrix map[string][]string `yaml:"matrix"`
		} `yaml:"strategy"`
		Steps []struct {
			Uses string         `yaml:"uses"`
			Run  string         `yaml:"run"`
			With map[string]any `yaml:"with"`
		} `yaml:"steps"`
	} `yaml:"jobs"`
}

// readWorkflow reads a workflow with one job, which runs in the Dockerfile's build image.
func readWorkflow(t *testing.T, name, job string) (w workflow, image string) {
	t.Helper()
	raw, err := os.ReadFile(root + "/.github/workflows/" + name)
	expect.OK(t, err)
	expect.OK(t, yaml.Unmarshal(raw, &w))
	if len(w.On) == 0 || w.Permissions["contents"] != "read" || len(w.Permissions) != 1 {
		t.Errorf("on %v, permissions %v: want some events, and to read contents only", w.On, w.Permissions)
	}
	expect.Equal(t, "jobs", len(w.Jobs), 1)
	image, _, _ = strings.Cut(readDockerfile(t)["build"].image, "@")
	expect.Equal(t, "image", w.Jobs[job].Container, image)
	return w, image
}

// Each night hosted CI runs all parts of the proof.
func TestWorkflowRunsTheProof(t *testing.T) {
	t.Parallel()
	w, _ := readWorkflow(t, "proof.yml", "part")
	script, err := os.ReadFile(root + "/.ci/proof.sh")
	expect.OK(t, err)
	_, parts, _ := strings.Cut(string(script), "\nparts=(")
	parts, _, _ = strings.Cut(parts, ")")
	expect.List(t, "parts", w.Jobs["part"].Strategy.Matrix["part"], strings.Fields(parts)...)
}

// Hosted CI runs .ci/run, and caches Go's downloads and builds.
func TestWorkflowRunsCI(t *testing.T) {
	t.Parallel()
	w, image := readWorkflow(t, "ci.yml", "run")
	job := w.Jobs["run"]
	var commands []string
	var cached, key, depth string
	for _, s := range job.Steps {
		commands = append(commands, s.Run)
		switch name, _, _ := strings.Cut(s.Uses, "@"); name {
		case "actions/cache":
			cached, _ = s.With["path"].(string)
			key, _ = s.With["key"].(string)
		case "actions/checkout":
			if s.With["fetch-depth"] == 0 {
				depth = "all"
			}
		}
	}
	if !slices.Contains(commands, ".ci/run") {
		t.Errorf("no step runs .ci/run: %q", commands)
	}
	if depth != "all" {
		t.Error("make lint reads the subjects of the last commits: fetch-depth: 0")
	}
	for _, name := range []string{"GOMODCACHE", "GOCACHE"} {
		if dir := job.Env[name]; dir == "" || !slices.Contains(strings.Fields(cached), dir) {
			t.Errorf("%s is %q, which is not cached: %q", name, dir, cached)
		}
	}
	if _, version, _ := strings.Cut(image, ":"); !strings.HasPrefix(key, "go-"+version+"-") {
		t.Errorf("the cache's key %q is not of Go %s", key, version)
	}
}
