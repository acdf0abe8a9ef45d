package deploy

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"turnstile/test/expect"
	"turnstile/test/program"
	"turnstile/test/redistest"
)

// boot is a systemd in namespaces of its own, with one unit.
type boot struct {
	*testing.T
	dir, unit string
	self      string // the pid of systemd
}

// agentOfUnit waits for the gate if its message is "hold", and writes what it may do.
const agentOfUnit = `sh -c "read -r text; [ $text != hold ] || cat /mnt/own/gate; grep -E '^(CapBnd|NoNewPrivs)' /proc/self/status; touch /usr/x 2>&1 || touch x && echo $text"`

var isolations = map[string]string{
	"none":     "",
	"confined": "TURNSTILE_CONFINED_READ=/mnt/own",
	"wrapper":  "TURNSTILE_WRAPPER={recipe} --ro-bind /mnt/own /mnt/own",
}

// A real systemd runs the unit as it is: the worker and agents of each isolation work under its limits,
// SIGHUP starts the worker anew, and a stop waits for the turn that runs.
func TestUnitUnderSystemd(t *testing.T) {
	t.Parallel()
	redistest.Real(t)
	for level, more := range isolations {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			server := redistest.StartServer(t)
			more = strings.Replace(more, "{recipe}", recipe(t), 1)
			b := startBoot(t, "worker", "REDIS_URL="+server.URL(), "TURNSTILE_AGENT=exec", "TURNSTILE_AGENT_COMMAND="+agentOfUnit,
				"TURNSTILE_ISOLATION="+level, more)
			enqueue := func(text string) *program.Process {
				return program.Start(t, program.Command(t, program.Build(t, "turnstile/cmd/enqueue"),
					[]string{"REDIS_URL=" + server.URL()}, "-s", "demo", "--wait", text))
			}
			replies := func(p *program.Process, text string) {
				t.Helper()
				p.ExitCode()
				for _, want := range []string{"CapBnd:\t0000000000000000\n", "NoNewPrivs:\t1\n", "/usr/x", text + "\n"} {
					if !strings.Contains(p.Output.String(), want) {
						t.Errorf("the reply lacks %q: %s", want, p.Output.String())
					}
				}
			}
			replies(enqueue("hello"), "hello")

			b.systemctl("reload")
			expect.Soon(t, "a new start", func() bool { return b.show("NRestarts") == "1" && b.show("SubState") == "running" })
			held := enqueue("hold")
			var gate *os.File
			expect.Soon(t, "the agent at the gate", func() (there bool) {
				gate, there = openGate(b.dir)
				return there
			})
			stopped := make(chan string, 1)
			go func() { stopped <- b.systemctl("stop") }()
			b.await("msg=draining .* reason=shutdown")
			expect.OK(t, gate.Close())
			replies(held, "hold")
			expect.Received(t, "the stop", stopped)
			expect.Equal(t, "how it ended", b.show("Result")+" "+b.show("ExecMainStatus"), "success 0")
		})
	}
}

const secretOfUnit = "secret-of-the-units-token"

// The gateway works under its unit's limits. Only its group may read the tokens, which a reload reads anew.
func TestGatewayUnitUnderSystemd(t *testing.T) {
	t.Parallel()
	redistest.Real(t)
	addr := freeAddr(t)
	b := startBoot(t, "gateway", "REDIS_URL="+redistest.StartServer(t).URL(), "TURNSTILE_GATEWAY_ADDR="+addr)
	health := program.Command(t, program.Build(t, "turnstile/cmd/gateway"), []string{"TURNSTILE_GATEWAY_ADDR=" + addr}, "health")
	if out, err := health.CombinedOutput(); err != nil {
		t.Errorf("health: %v: %s", err, out)
	}
	for token, want := range map[string]int{secretOfUnit: http.StatusOK, "another": http.StatusUnauthorized} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+"/v1/sessions", nil)
		expect.OK(t, err)
		request.Header.Set("Authorization", "Bearer "+token)
		response, err := http.DefaultClient.Do(request)
		expect.OK(t, err)
		expect.OK(t, response.Body.Close())
		expect.Equal(t, "status of "+token, response.StatusCode, want)
	}
	b.systemctl("reload")
	b.await("the file was reloaded")
	b.systemctl("stop")
	expect.Equal(t, "how it ended", b.show("Result")+" "+b.show("ExecMainStatus"), "success 0")
}

// recipe is the wrapper of docs/security.md.
func recipe(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile(root + "/docs/security.md")
	expect.OK(t, err)
	return regexp.MustCompile(`TURNSTILE_WRAPPER='(bwrap [^']+)'`).FindStringSubmatch(string(page))[1]
}

func openGate(dir string) (*os.File, bool) {
	gate, err := os.OpenFile(filepath.Join(dir, "gate"), os.O_WRONLY|syscall.O_NONBLOCK, 0) // fails without a reader
	return gate, err == nil
}

func startBoot(t *testing.T, name string, settings ...string) *boot {
	t.Helper()
	expect.NotQuick(t)
	for _, test := range []string{"test -x /lib/systemd/systemd", "unshare --mount --cgroup --pid --ipc --uts --fork mount -t overlay -o lowerdir=/etc:/var/lib overlay /mnt"} {
		if out, err := exec.CommandContext(t.Context(), "sh", "-c", test).CombinedOutput(); err != nil {
			t.Skipf("NOT CHECKED: the unit under a real systemd, which needs root and namespaces: %s: %v %s", test, err, out)
		}
	}
	b := &boot{T: t, dir: t.TempDir(), unit: "turnstile-" + name}
	expect.OK(t, os.Chmod(b.dir, 0o755))                                    //nolint:gosec // the unit's user reads the gate
	expect.OK(t, os.MkdirAll(filepath.Join(b.dir, "etc/turnstile"), 0o755)) //nolint:gosec // as /etc
	expect.OK(t, syscall.Mkfifo(filepath.Join(b.dir, "gate"), 0o644))
	const log = "[Service]\nStandardOutput=append:/mnt/own/log\nStandardError=append:/mnt/own/log\n"
	for from, to := range map[string]string{
		program.Build(t, "turnstile/cmd/"+name): "bin/" + name, unitDir + b.unit + ".service": "units/" + b.unit + ".service",
		unitDir + "turnstile.sysusers.conf": "turnstile.sysusers.conf",
	} {
		text, err := os.ReadFile(from)
		expect.OK(t, err)
		b.write(to, string(text))
	}
	b.write("units/"+b.unit+".service.d/log.conf", log)
	b.write("etc/turnstile/tokens.json", fmt.Sprintf(`[{"name": "test", "sha256": "%x", "sessions": ["*"], "may": ["read"]}]`, sha256.Sum256([]byte(secretOfUnit))))
	b.write("etc/turnstile/"+name+".env", strings.Join(settings, "\n"))
	b.write("log", "")
	b.write("systemd", "")

	cmd := exec.CommandContext(context.Background(), "unshare", "--mount", "--propagation=private", "sh", "testdata/boot.sh", b.dir, b.unit)
	stdin, err := cmd.StdinPipe()
	expect.OK(t, err)
	p := program.Start(t, cmd)
	t.Cleanup(func() {
		_ = stdin.Close() // the script ends all
		p.ExitCode()
		if t.Failed() {
			t.Logf("systemd:\n%s\n%s:\n%s", b.read("systemd"), name, b.read("log"))
		}
	})
	b.await(`msg="(worker started|serving HTTP)"`)
	script, err := strconv.Atoi(children(p.Process.Pid))
	expect.OK(t, err)
	b.self = children(script)
	return b
}

func (b *boot) write(name, text string) {
	b.Helper()
	path := filepath.Join(b.dir, name)
	expect.OK(b, os.MkdirAll(filepath.Dir(path), 0o755)) //nolint:gosec // as below /etc
	expect.OK(b, os.WriteFile(path, []byte(text), 0o600))
}

func (b *boot) read(name string) string {
	text, err := os.ReadFile(filepath.Join(b.dir, name))
	expect.OK(b, err)
	return string(text)
}

// await waits for a line of the worker's log.
func (b *boot) await(pattern string) {
	b.Helper()
	line := regexp.MustCompile(pattern)
	expect.Soon(b, pattern, func() bool { return line.MatchString(b.read("log")) })
}

func (b *boot) systemctl(args ...string) string {
	b.Helper()
	out, err := exec.CommandContext(b.Context(), "nsenter", append([]string{"--target", b.self, "--mount", "--pid", "systemctl"}, append(args, b.unit)...)...).CombinedOutput()
	if err != nil {
		b.Errorf("systemctl %q: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (b *boot) show(property string) string {
	b.Helper()
	return b.systemctl("show", "--value", "--property="+property)
}
