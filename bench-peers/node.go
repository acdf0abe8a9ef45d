package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

// oldest is the oldest major version of Node.js that package.json accepts.
const oldest = 20

// folder is this module's, where package.json is.
func folder() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(file)
}

// modules is where `make bench-peers` installs the npm packages.
func modules() string { return filepath.Join(folder(), "node_modules") }

// nodeVersion is the version of the Node.js on PATH.
func nodeVersion(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "node", "--version").Output()
	if err != nil {
		return "", err
	}
	return strings.TrimPrefix(strings.TrimSpace(string(out)), "v"), nil
}

// hasNode returns an error if a package of npm cannot run here.
func hasNode(ctx context.Context, packages ...string) error {
	version, err := nodeVersion(ctx)
	if err != nil {
		return err
	}
	major, _, _ := strings.Cut(version, ".")
	if n, err := strconv.Atoi(major); err != nil || n < oldest {
		return fmt.Errorf("node %s is older than %d", version, oldest)
	}
	for _, name := range packages {
		if _, err := os.Stat(filepath.Join(modules(), name)); errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("the npm package %s is not installed, `make bench-peers` does it", name)
		}
	}
	return nil
}

// node is the command of a client in JavaScript.
func node(file string) func(context.Context) *exec.Cmd {
	return func(ctx context.Context) *exec.Cmd {
		cmd := exec.CommandContext(ctx, "node", filepath.Join(folder(), file))
		cmd.Env = append(os.Environ(), "NODE_ENV=production", "RESTATE_LOGGING=ERROR")
		return cmd
	}
}

// tail keeps the last bytes written to it. It is read after the writer's end.
type tail struct{ end []byte }

const tailBytes = 300

func (t *tail) Write(p []byte) (int, error) {
	t.end = append(t.end, p...)
	t.end = t.end[max(0, len(t.end)-tailBytes):]
	return len(p), nil
}

func (t *tail) String() string { return strings.Join(strings.Fields(string(t.end)), " ") }
