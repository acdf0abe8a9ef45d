package deploy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"turnstile/test/expect"
	"turnstile/test/program"
	"turnstile/test/redistest"
	"turnstile/test/unprivileged"
)

// image is the root filesystem that the Dockerfile's steps make, and the environment. Without a container engine its base
// image is missing: scratch is empty anyway, and for worker-agents it is this machine's system.
type image struct {
	*testing.T
	root, agents string
	environ      []string
}

// built runs the Dockerfile's build, and returns the folder that is /out there.
func built(t *testing.T) string {
	t.Helper()
	expect.NotQuick(t)
	redistest.Real(t)
	if out, err := exec.CommandContext(t.Context(), "unshare", "--mount", "--pid", "--ipc", "--fork", "mount", "-t", "proc", "proc", "/mnt").CombinedOutput(); err != nil {
		t.Skipf("NOT CHECKED: the images, which need root and namespaces: %v %s", err, out)
	}
	out := t.TempDir()
	for _, step := range readDockerfile(t)["build"].all("RUN") {
		if step == "go mod download" { // `go build` does it, for fewer modules
			continue
		}
		cmd := exec.CommandContext(t.Context(), "sh", "-c", strings.ReplaceAll(step, "/out", out))
		cmd.Dir = root
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", step, err, text)
		}
	}
	return out
}

// newImage carries out an image's COPY and ENV.
func newImage(t *testing.T, out, name string) *image {
	t.Helper()
	stage := readDockerfile(t)[name]
	i := &image{T: t, root: t.TempDir(), environ: stage.environ()}
	for _, c := range stage.copies(t) {
		for _, source := range c.sources {
			source = strings.Replace(source, "/out", out, 1)
			info, err := os.Stat(source)
			expect.OK(t, err)
			to := filepath.Join(i.root, c.to)
			if strings.HasSuffix(c.to, "/") {
				to = filepath.Join(to, filepath.Base(source))
			}
			expect.OK(t, os.MkdirAll(filepath.Dir(to), 0o755)) //nolint:gosec // as COPY does
			if info.IsDir() {
				err = os.Mkdir(to, 0o755) //nolint:gosec // the empty one
			} else {
				err = unprivileged.Install(to, source, info.Mode())
			}
			expect.OK(t, err)
			if c.owner != "" {
				expect.Equal(t, "the owner of "+c.to, c.owner, stage.all("USER")[0])
				expect.OK(t, os.Chown(to, 10001, 10001))
			}
		}
	}
	return i
}

// command is what a container of the image runs.
func (i *image) command(settings []string, args ...string) *exec.Cmd {
	i.Helper()
	args = append([]string{"--mount", "--pid", "--ipc", "--fork", "--kill-child", "/bin/sh", "testdata/container.sh", i.root, i.agents}, args...)
	return program.Command(i.T, "unshare", slices.Concat(i.environ, settings), args...)
}

func (i *image) run(settings []string, args ...string) (string, error) {
	i.Helper()
	out, err := i.command(settings, args...).CombinedOutput()
	return string(out), err
}

// works starts a program in a container, awaits its health, has it do something, and drains it.
func (i *image) works(name string, settings []string, do func()) {
	i.Helper()
	path := "/usr/local/bin/" + name
	p := program.Start(i.T, i.command(settings, path))
	expect.Soon(i.T, name+"'s health", func() bool {
		select {
		case <-p.Ended():
			i.Fatalf("%s ended before it was healthy", name)
		default:
		}
		_, err := i.run(settings, path, "health")
		return err == nil
	})
	self := children(p.Process.Pid)
	status, err := os.ReadFile("/proc/" + self + "/status")
	expect.OK(i.T, err)
	for _, want := range []string{`\nUid:(\t10001){4}\n`, `\nGid:(\t10001){4}\n`, `\nGroups:\s*(10001)?\s*\n`, `\nCapPrm:\t0+\n`, `\nCapEff:\t0+\n`, `\nNoNewPrivs:\t1\n`} {
		if !regexp.MustCompile(want).Match(status) {
			i.Errorf("%s has no %s:\n%s", name, want, status)
		}
	}
	for _, folder := range []string{"/", "/usr/local/bin", "/etc"} { // even root cannot
		if err := os.WriteFile("/proc/"+self+"/root"+folder+"/x", nil, 0o600); !errors.Is(err, syscall.EROFS) {
			i.Errorf("%s is writable: %v", folder, err)
		}
	}
	do()
	expect.OK(i.T, exec.CommandContext(context.Background(), "kill", "-TERM", self).Run())
	expect.Equal(i.T, name+"'s exit code", p.ExitCode(), 0)
}

// children are the pids of a process' children.
func children(pid int) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	return strings.TrimSpace(string(text))
}

func TestImages(t *testing.T) {
	t.Parallel()
	out := built(t)
	t.Run("worker and gateway", func(t *testing.T) {
		t.Parallel()
		ourImages(t, out)
	})
	t.Run("of an agent of one's own", func(t *testing.T) {
		t.Parallel()
		ownImage(t, out)
	})
}

// ourImages: the images worker and gateway work with nothing but what the Dockerfile puts into them.
func ourImages(t *testing.T, out string) {
	t.Helper()
	server, addr, worker := redistest.StartServer(t), freeAddr(t), newImage(t, out, "worker")
	settings := []string{"REDIS_URL=" + server.URL(), "TURNSTILE_HTTP_ADDR=" + addr}
	worker.works("worker", settings, func() {
		if out, err := worker.run(settings, "/usr/local/bin/enqueue", "-s", "demo", "--wait", "hello"); err != nil || !strings.Contains(out, "echo: hello") {
			t.Errorf("enqueue: %v: %s", err, out)
		}
	})
	expect.Equal(t, "its folders", folders(t, worker.root), "dev etc home proc tmp usr")
	newImage(t, out, "gateway").works("gateway", []string{"REDIS_URL=" + server.URL(), "TURNSTILE_GATEWAY_ADDR=" + freeAddr(t)}, func() {})
}

// ownImage: an agent of one's own, in the image that the Dockerfile's head describes, runs under docker-compose.yml. Its
// environment is what Docker makes of the image's and of the service's, as Docker Compose resolves that.
func ownImage(t *testing.T, out string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "Dockerfile"))
	expect.OK(t, err)
	var head stage
	for _, l := range regexp.MustCompile(`(?m)^#   ([A-Z]+) (.+)$`).FindAllStringSubmatch(string(text), -1) {
		head.lines = append(head.lines, line{l[1], l[2]})
	}
	expect.List(t, "COPY", head.all("COPY"), "--from=turnstile /usr/local/bin/worker /usr/local/bin/")
	expect.List(t, "USER and ENTRYPOINT", append(head.all("USER"), head.all("ENTRYPOINT")...), "10001:10001", `["/usr/local/bin/worker"]`)

	worker := newImage(t, out, "worker")
	own := &image{T: t, root: t.TempDir(), agents: t.TempDir(), environ: head.environ()}
	for _, folder := range []string{"usr/local/bin", "home/turnstile", "work"} {
		expect.OK(t, os.MkdirAll(filepath.Join(own.root, folder), 0o755)) //nolint:gosec // as in an image
	}
	expect.OK(t, unprivileged.Install(filepath.Join(own.root, "usr/local/bin/worker"), filepath.Join(worker.root, "usr/local/bin/worker"), 0o711))
	expect.OK(t, os.Mkdir(filepath.Join(own.agents, "bin"), 0o755))                                                           //nolint:gosec // as in an image
	expect.OK(t, os.WriteFile(filepath.Join(own.agents, "bin/my-agent"), []byte("#!/bin/sh\necho \"my-agent $*\"\n"), 0o755)) //nolint:gosec // it is run

	project, err := load(t, same, nil, composeFile)
	expect.OK(t, err)
	settings := []string{}
	for name, value := range project.Services["worker"].Environment {
		own.environ = slices.DeleteFunc(own.environ, func(v string) bool { return strings.HasPrefix(v, name+"=") })
		if value != nil {
			settings = append(settings, name+"="+*value)
		}
	}
	settings = append(settings, "REDIS_URL="+redistest.StartServer(t).URL(), "TURNSTILE_HTTP_ADDR="+freeAddr(t))
	own.works("worker", settings, func() {
		if out, err := worker.run(settings, "/usr/local/bin/enqueue", "-s", "demo", "--wait", "hello"); err != nil || !strings.Contains(out, "my-agent --flag") {
			t.Errorf("enqueue: %v: %s", err, out)
		}
	})
}

func folders(t *testing.T, dir string) string {
	t.Helper()
	list, err := os.ReadDir(dir)
	expect.OK(t, err)
	var names []string
	for _, entry := range list {
		names = append(names, entry.Name())
	}
	return strings.Join(names, " ")
}

// The agents of worker-agents start in it, and a worker with one of them, confined. `make real-agents` has installed them
// as the Dockerfile does.
func TestRealAgentsInTheirImage(t *testing.T) {
	t.Parallel()
	path, err := exec.LookPath("claude")
	if err != nil {
		t.Skip("NOT CHECKED: the agents in their image, which `make real-agents` installs")
	}
	i := newImage(t, built(t), "worker-agents")
	i.agents = filepath.Dir(filepath.Dir(path))
	npm := strings.Join(readDockerfile(t)["worker-agents"].all("RUN"), "\n")
	for name, module := range map[string]string{
		"claude": "@anthropic-ai/claude-code", "codex": "@openai/codex", "gemini": "@google/gemini-cli", "opencode": "opencode-ai",
	} {
		version := regexp.MustCompile(regexp.QuoteMeta(module) + `@(\S+)`).FindStringSubmatch(npm)[1]
		if out, err := i.run(nil, "/usr/local/bin/"+name, "--version"); err != nil || !strings.Contains(out, version) {
			t.Errorf("%s is not %s: %v: %s", name, version, err, out)
		}
	}
	i.works("worker", []string{
		"REDIS_URL=" + redistest.StartServer(t).URL(), "TURNSTILE_HTTP_ADDR=" + freeAddr(t), "TURNSTILE_AGENT=claude", "TURNSTILE_ISOLATION=confined",
	}, func() {})
}
