package deploy

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"turnstile/test/expect"
)

// merged is a part of what Docker Compose's own loader makes of the files.
type merged struct {
	Services map[string]struct {
		Image   string   `json:"image"`
		Build   build    `json:"build"`
		Tmpfs   []string `json:"tmpfs"`
		Volumes []struct{ Source, Target string }
		Grace   string `json:"stop_grace_period"`
	} `json:"services"`
}

// load lets compose-go, the loader of Docker Compose, check the files against its schema, and merge them.
func load(t *testing.T, change func(text string) string, files ...string) (m merged, err error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "tool", "-n", "-modfile=tools/go.mod", "github.com/compose-spec/compose-go/v2/cmd")
	cmd.Dir = root
	tool, err := cmd.Output()
	if err != nil {
		expect.Lacks(t, "compose-go: "+err.Error())
	}
	dir, vars := secrets(t)
	expect.OK(t, os.Mkdir(filepath.Join(dir, "deploy"), 0o700))
	for _, name := range files {
		raw, err := os.ReadFile(filepath.Join(root, name))
		expect.OK(t, err)
		text, _, err := interpolate(change(string(raw)), vars) // the tool has no variables
		expect.OK(t, err)
		expect.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	cmd = exec.CommandContext(t.Context(), strings.TrimSpace(string(tool)), append([]string{"-format", "json"}, files...)...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
		return m, errors.New(string(failed.Stderr))
	}
	expect.OK(t, json.Unmarshal(out, &m))
	return m, err
}

// Docker Compose takes the files: alone, and together.
func TestComposeSchema(t *testing.T) {
	t.Parallel()
	expect.NotQuick(t)
	same := func(text string) string { return text }
	const file, agents = "docker-compose.yml", "deploy/compose-agents.yml"
	alone, err := load(t, same, file)
	expect.OK(t, err)
	both, err := load(t, same, file, agents)
	expect.OK(t, err)
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
		if _, err := load(t, func(text string) string { return strings.Replace(text, from, to, 1) }, file); err == nil {
			t.Errorf("it takes %q", to)
		}
	}
}
