//go:build linux

package sick

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"turnstile"

	"turnstile/internal/process/confine"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/program"
	"turnstile/test/redistest"
	"turnstile/test/unprivileged"
)

var workerPath, agentPath string

func TestMain(m *testing.M) { unprivileged.Main(m, nil, &workerPath, &agentPath) }

// rig is a user, whose directory has a worker and the agent that it starts.
type rig struct {
	*testing.T
	unprivileged.User
	ctx    context.Context
	client *actors.Client
	path   string // of the worker's program
	agent  string // of the agent's
	worker *program.Process
}

func newRig(t *testing.T) *rig {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), expect.Patience)
	t.Cleanup(cancel)
	r := &rig{T: t, User: unprivileged.New(t), ctx: ctx, client: actors.NewClient(redistest.New(t))}
	r.path, r.agent = filepath.Join(r.Dir, "worker"), filepath.Join(r.Dir, "agent")
	expect.OK(t, unprivileged.Install(r.path, workerPath, 0o755))
	r.script("#!/bin/sh\nexec cat\n")
	return r
}

// script makes the agent's program anew.
func (r *rig) script(text string) {
	r.Helper()
	expect.OK(r, os.RemoveAll(r.agent))
	expect.OK(r, os.WriteFile(r.agent, []byte(text), 0o755)) //nolint:gosec // a program of another user
}

func (r *rig) chmod(path string, mode os.FileMode) { r.Helper(); expect.OK(r, os.Chmod(path, mode)) }

// start starts the worker and lets the agent answer once.
func (r *rig) start(settings ...string) {
	r.Helper()
	r.worker = r.Start(r.T, r.path, append([]string{
		"REDIS_URL=" + redistest.URL(r.T), "TURNSTILE_AGENT=exec", "TURNSTILE_AGENT_COMMAND=" + r.agent,
		"TURNSTILE_CONCURRENCY=2", "TURNSTILE_RETRY_BACKOFF=10ms", "TURNSTILE_DRAIN_TIMEOUT=0",
	}, settings...))
	r.says("first", "hello")
	r.answers("first", "hello")
}

func (r *rig) says(key, text string) {
	r.Helper()
	_, err := r.client.Session(key).Send(r.ctx, turnstile.Message{ID: text, Text: text})
	expect.OK(r, err)
}

func (r *rig) answers(key, text string) {
	r.Helper()
	end, err := r.client.Session(key).Wait(r.ctx, text)
	if err != nil || end.Status != session.StatusDone || end.Reply != text {
		r.Fatalf("%s in %s ended as %s: %s, %v", text, key, end.Status, end.Why(), err)
	}
}

// limit sets a limit of the running worker, as its user; root may lack the right.
func (r *rig) limit(name, soft string) {
	r.Helper()
	out, err := r.Command("prlimit", "--pid", strconv.Itoa(r.worker.Process.Pid), "--"+name+"="+soft+":").CombinedOutput()
	if err != nil {
		expect.Lacks(r.T, fmt.Sprintf("prlimit (util-linux): %v: %s", err, out))
	}
}

// While a worker cannot start its agent, whatever is missing, messages wait, and no attempt is spent. Afterwards they
// are answered in order.
func TestMessagesWaitUntilTheAgentCanBeStarted(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		settings func(r *rig) []string
		breaks   func(r *rig)
		why      string
		repairs  func(r *rig)
	}{
		"gone":           {nil, func(r *rig) { expect.OK(r, os.Remove(r.agent)) }, "no such file or directory", nil},
		"forbidden":      {nil, func(r *rig) { r.chmod(r.agent, 0) }, "permission denied", nil},
		"no program":     {nil, func(r *rig) { r.script("nonsense") }, "exec format error", nil},
		"no interpreter": {nil, func(r *rig) { r.script("#!/no/such/program\n") }, "no such file or directory", nil},
		"no descriptors": {nil, func(r *rig) { r.limit("nofile", "1") }, "too many open files", func(r *rig) { r.limit("nofile", "1000") }},
		"no guardian":    {nil, func(r *rig) { r.chmod(r.path, 0) }, "guardian: fork/exec /proc/self/exe: permission denied", func(r *rig) { r.chmod(r.path, 0o755) }},
		"no workspace": {
			func(r *rig) []string {
				return []string{"TURNSTILE_ISOLATION=wrapper", "TURNSTILE_WRAPPER=env", "TURNSTILE_WORKSPACE_DIR=" + filepath.Join(r.Dir, "work")}
			},
			func(r *rig) { // a wrong mode would be repaired
				work := filepath.Join(r.Dir, "work")
				expect.OK(r, os.Rename(work, work+".away"))
				expect.OK(r, os.WriteFile(work, nil, 0o600))
				expect.OK(r, os.Chown(work, r.ID, r.ID))
			}, "is no directory", func(r *rig) {
				work := filepath.Join(r.Dir, "work")
				expect.OK(r, os.Remove(work))
				expect.OK(r, os.Rename(work+".away", work))
			},
		},
		"not confined": {
			func(r *rig) []string {
				if err := confine.Check(); err != nil {
					expect.Lacks(r.T, err.Error())
				}
				return []string{"TURNSTILE_ISOLATION=confined", "TURNSTILE_WORKSPACE_DIR=" + filepath.Join(r.Dir, "work")}
			},
			func(r *rig) {
				expect.OK(r, unprivileged.Install(filepath.Join(r.Dir, "sh"), "/bin/sh", 0o755))
				r.script("#!" + filepath.Join(r.Dir, "sh") + "\nexec cat\n")
			}, "could not start the program confined", nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			var settings []string
			if c.settings != nil {
				settings = c.settings(r)
			}
			r.start(settings...)
			c.breaks(r)
			for _, text := range []string{"one", "two"} {
				r.says("a", text)
				r.says("b", text)
			}
			r.worker.Output.Await(t, "pause=2s") // the second failure
			if !strings.Contains(r.worker.Output.String(), c.why) {
				t.Errorf("the log lacks %q", c.why)
			}
			for _, key := range []string{"a", "b"} {
				s, err := r.client.Session(key).Info(r.ctx)
				expect.OK(t, err)
				expect.Equal(t, "dead letters", s.DeadLetters, 0)
			}
			if c.repairs == nil {
				r.script("#!/bin/sh\nexec cat\n")
			} else {
				c.repairs(r)
			}
			for _, text := range []string{"one", "two"} {
				r.answers("a", text)
				r.answers("b", text)
			}
			for _, bad := range []string{"attempt=2", "status=retried", "status=failed"} {
				if strings.Contains(r.worker.Output.String(), bad) {
					t.Errorf("the log has %s", bad)
				}
			}
		})
	}
}

// Beside a worker that can start the agent, every message is answered. The other one says what it lacks.
func TestNothingIsLostBesideASickWorker(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.start("TURNSTILE_HTTP_ADDR=127.0.0.1:0")
	r.worker.Output.Await(t, "addr=")
	_, addr, _ := strings.Cut(r.worker.Output.String(), "addr=")
	addr = strings.Fields(addr)[0]
	healthy := r.Start(t, workerPath, []string{
		"REDIS_URL=" + redistest.URL(t), "TURNSTILE_AGENT=exec", "TURNSTILE_AGENT_COMMAND=sh -c 'sleep 0.05; exec cat'", "TURNSTILE_CONCURRENCY=4",
	})
	healthy.Output.Await(t, "worker started")
	expect.OK(t, os.Remove(r.agent))
	for i := range 80 {
		r.says(fmt.Sprint("s", i), "hello")
	}
	for i := range 80 {
		r.answers(fmt.Sprint("s", i), "hello")
	}
	r.worker.Output.Await(t, "an agent cannot be started here")
	why := "cannot start agent default: exec: "
	expect.Equal(t, "readyz", r.get(addr, "/readyz", why), 503)
	expect.Equal(t, "metrics", r.get(addr, "/metrics", "turnstile_agents_unavailable 1\n"), 200)
	expect.Equal(t, "healthz", r.get(addr, "/healthz", "ok"), 200)
	expect.Soon(t, "worker ps says why", func() bool { // with the next heartbeat
		cmd := r.Command(workerPath, "ps")
		cmd.Env = append(cmd.Env, "REDIS_URL="+redistest.URL(t))
		out, err := cmd.CombinedOutput()
		expect.OK(t, err)
		return strings.Contains(string(out), "worker: "+why)
	})
}

// get returns a page's status. The page must have this text.
func (r *rig) get(addr, path, want string) (status int) {
	r.Helper()
	request, err := http.NewRequestWithContext(r.ctx, http.MethodGet, "http://"+addr+path, nil)
	expect.OK(r, err)
	response, err := http.DefaultClient.Do(request)
	expect.OK(r, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	expect.OK(r, err)
	if !strings.Contains(string(body), want) {
		r.Errorf("%s is %.500s, want %s", path, body, want)
	}
	return response.StatusCode
}

// A worker that can never start a program does not begin to work. One whose agent needs none does.
func TestWithoutProc(t *testing.T) {
	t.Parallel()
	if err := exec.CommandContext(t.Context(), "unshare", "--mount", "umount", "-l", "/proc").Run(); err != nil {
		expect.Lacks(t, "unshare, or the right to use it: "+err.Error())
	}
	url := redistest.URL(t)
	start := func(settings ...string) *program.Process {
		settings = append(settings, "REDIS_URL="+url, "TURNSTILE_DRAIN_TIMEOUT=0")
		return program.Start(t, program.Command(t, "unshare", settings, "--mount", "sh", "-c", "umount -l /proc && exec "+workerPath))
	}
	for _, settings := range [][]string{
		{"TURNSTILE_AGENT=exec", "TURNSTILE_AGENT_COMMAND=cat"},
		{"TURNSTILE_AGENT=exec", "TURNSTILE_AGENT_COMMAND=cat", "TURNSTILE_ISOLATION=wrapper", "TURNSTILE_WRAPPER=env", "TURNSTILE_WORKSPACE_DIR=" + t.TempDir()},
	} {
		p := start(settings...)
		expect.Equal(t, "exit code", p.ExitCode(), 2)
		want := "worker: setting TURNSTILE_AGENT: the programs of agents cannot be started here: guardian: find this program's binary: readlink /proc/self/exe: no such file or directory: mount /proc\n"
		expect.Equal(t, "output", p.Output.String(), want)
	}
	start("TURNSTILE_AGENT=echo").Output.Await(t, "worker started")
}
