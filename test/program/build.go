// Package program builds programs for tests and runs them as child processes.
package program

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
)

var built sync.Map // folder and import path -> func() (string, error)

// Build builds a program for a test, as Path does.
func Build(t testing.TB, importPath string) string {
	t.Helper()
	path, err := Path(importPath)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Path builds a program and returns its path, which is in go's build cache: all test binaries share
// it, and none links it again or removes it.
func Path(importPath string) (string, error) { return PathIn("", importPath) }

// PathIn does it in a folder, which may be of another module.
func PathIn(dir, importPath string) (string, error) {
	once, _ := built.LoadOrStore([2]string{dir, importPath}, sync.OnceValues(func() (string, error) { return build(dir, importPath) }))
	return once.(func() (string, error))()
}

// build makes `go run` print the program that it would run. That is a temporary file if the program
// must be built first, and the next time the copy in the cache.
func build(dir, importPath string) (path string, err error) {
	for range 3 {
		var said strings.Builder
		cmd := exec.CommandContext(context.Background(), "go", "run", "-exec=echo", importPath)
		cmd.Dir = dir
		cmd.Stderr = &said
		out, err := cmd.Output()
		if err != nil {
			return "", fmt.Errorf("build %s: %w\n%s", importPath, err, said.String())
		}
		path = strings.TrimSpace(string(out))
		if _, err := os.Stat(path); err == nil {
			return path, lookAtSources(dir, importPath)
		}
	}
	return "", fmt.Errorf("build %s: go run does not keep it: %s is gone", importPath, path)
}

// lookAtSources looks at the files that a program is made of: `go test` repeats a result from its cache
// only while the files that the test has looked at are the same.
func lookAtSources(dir, importPath string) error {
	const files = `{{$dir := .Dir}}{{if .Module}}{{if .Module.Main}}{{range .GoFiles}}{{$dir}}/{{.}}{{"\n"}}{{end}}{{range .EmbedFiles}}{{$dir}}/{{.}}{{"\n"}}{{end}}{{end}}{{end}}`
	cmd := exec.CommandContext(context.Background(), "go", "list", "-deps", "-f", files, importPath)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("list the files of %s: %w", importPath, err)
	}
	for _, file := range strings.Fields(string(out)) {
		if _, err := os.Stat(file); err != nil {
			return err
		}
	}
	return nil
}
