package deploy

import (
	"os"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// workflow has the fields of a hosted-CI workflow that are tested here; `make lint` checks its
// grammar with actionlint.
type workflow struct {
	On          map[string]any    `yaml:"on"`
	Permissions map[string]string `yaml:"permissions"`
	Jobs        map[string]struct {
		Container string            `yaml:"container"`
		Env       map[string]string `yaml:"env"`
		Steps     []struct {
			Uses string         `yaml:"uses"`
			Run  string         `yaml:"run"`
			With map[string]any `yaml:"with"`
		} `yaml:"steps"`
	} `yaml:"jobs"`
}

// Hosted CI runs .ci/run in the Dockerfile's build image, and caches Go's downloads and builds.
func TestWorkflowRunsCI(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(root + "/.github/workflows/ci.yml")
	if err != nil {
		t.Fatal(err)
	}
	var w workflow
	if err := yaml.Unmarshal(raw, &w); err != nil {
		t.Fatal(err)
	}
	if len(w.On) == 0 || w.Permissions["contents"] != "read" || len(w.Permissions) != 1 {
		t.Errorf("on %v, permissions %v: want some events, and to read contents only", w.On, w.Permissions)
	}
	job, ok := w.Jobs["run"]
	if !ok || len(w.Jobs) != 1 {
		t.Fatalf("jobs %v, want run", w.Jobs)
	}
	image, _, _ := strings.Cut(readDockerfile(t)["build"].image, "@")
	if job.Container != image {
		t.Errorf("image %s, but Dockerfile builds with %s", job.Container, image)
	}
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
		t.Error("make neighbours needs the whole history: fetch-depth: 0")
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
