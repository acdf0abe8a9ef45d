package world

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"turnstile/test/clock"
)

// Programs are the built binaries of a run, all in one directory: a process that is left at the end
// is recognized by its executable.
type Programs struct {
	Dir                             string
	Root                            string // the tree
	Worker, Gateway, Enqueue, Agent string

	// Shim is preloaded by redis-server.
	Shim string
}

// Build builds the programs from the tree at root. overlay replaces files of it, as for go build.
// The workers get a clock that can be moved. self is this program, which is also the agents'
// program.
func Build(ctx context.Context, root, dir, self string, overlay map[string]string) (p Programs, err error) {
	p = Programs{
		Dir: dir, Root: root, Worker: filepath.Join(dir, "worker"), Gateway: filepath.Join(dir, "gateway"),
		Enqueue: filepath.Join(dir, "enqueue"), Agent: filepath.Join(dir, "chaos-agent"),
	}
	build := filepath.Join(dir, "build")
	if err := os.MkdirAll(build, 0o755); err != nil {
		return p, err
	}
	if p.Shim, err = clock.Build(ctx, build); err != nil {
		return p, err
	}
	// The overlay names its files by stable paths. Otherwise go build would compile all packages
	// again.
	kept, err := os.UserCacheDir()
	if err != nil {
		return p, err
	}
	kept = filepath.Join(kept, "turnstile-chaos")
	if err := os.MkdirAll(kept, 0o755); err != nil {
		return p, err
	}
	moved := map[string]string{}
	if err := movableTime(ctx, kept, moved); err != nil {
		return p, err
	}
	for from, to := range overlay {
		moved[from] = to
	}
	if err := goBuild(ctx, root, build, "clock", moved, p.Worker, "./cmd/worker"); err != nil {
		return p, err
	}
	for program, from := range map[string]string{p.Gateway: "./cmd/gateway", p.Enqueue: "./cmd/enqueue"} {
		if err := goBuild(ctx, root, build, "plain", overlay, program, from); err != nil {
			return p, err
		}
	}
	binary, err := os.ReadFile(self)
	if err != nil {
		return p, err
	}
	return p, os.WriteFile(p.Agent, binary, 0o755)
}

func goBuild(ctx context.Context, root, dir, name string, overlay map[string]string, out, pkg string) error {
	args := []string{"build", "-o", out}
	if len(overlay) > 0 {
		text, err := json.Marshal(map[string]any{"Replace": overlay})
		if err != nil {
			return err
		}
		file := filepath.Join(dir, name+".json")
		if err := os.WriteFile(file, text, 0o644); err != nil {
			return err
		}
		args = append(args, "-overlay", file)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, pkg)...)
	cmd.Dir = root
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", pkg, err, said)
	}
	return nil
}
