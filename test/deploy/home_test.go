package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"turnstile/test/expect"
)

// Whoever hosts the module gives it another path with one command: then all packages and tests find each
// other. With TURNSTILE_PROOF=true all of them are compiled and vetted as well.
func TestHome(t *testing.T) {
	t.Parallel()
	expect.NotQuick(t)
	home := t.TempDir()
	run := func(dir, name string, args ...string) string {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Dir = dir
		said := &strings.Builder{}
		cmd.Stderr = said // go says there what it downloads
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s %s in %s: %v\n%s%s", name, strings.Join(args, " "), dir, err, out, said)
		}
		return string(out)
	}
	files := run(root, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	for name := range strings.SplitSeq(strings.TrimRight(files, "\x00"), "\x00") {
		text, err := os.ReadFile(filepath.Join(root, name))
		if os.IsNotExist(err) {
			continue // deleted, and not committed yet
		}
		expect.OK(t, err)
		info, err := os.Stat(filepath.Join(root, name))
		expect.OK(t, err)
		expect.OK(t, os.MkdirAll(filepath.Dir(filepath.Join(home, name)), 0o700))
		expect.OK(t, os.WriteFile(filepath.Join(home, name), text, info.Mode()))
	}
	run(home, "git", "init", "-q", ".")
	run(home, "git", "add", "-A")
	for _, wrong := range []string{"", "queue", "https://git.example.org/queue", "git.example.org/a b"} {
		if out, err := exec.Command(filepath.Join(home, ".ci/home.sh"), wrong).CombinedOutput(); err == nil {
			t.Errorf("MODULE=%s is accepted: %s", wrong, out)
		}
	}
	run(home, "make", "-s", "home", "MODULE=git.example.org/you/queue")
	for _, dir := range []string{".", "bench", "bench-peers", "chaos", "deploy/helm"} {
		const failed = `{{if .Error}}{{.ImportPath}}: {{.Error}}{{end}}`
		expect.Equal(t, "packages that are not found", run(filepath.Join(home, dir), "go", "list", "-deps", "-test", "-f", failed, "./..."), "")
		if expect.Proof() {
			run(filepath.Join(home, dir), "go", "vet", "./...")
		}
	}
	if !expect.Proof() {
		return
	}
	run(home, "go", "build", "./...")
}
