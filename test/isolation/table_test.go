package isolation

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// The verdicts of the table.
const (
	no  = "stopped"
	yes = "**not stopped**"
)

// row is an attack of an agent, with the verdict for each isolation.
type row struct {
	id, attack              string
	none, confined, wrapper string
}

// table has the attacks. "The other agent" is that of another session of the same worker.
var table = []row{
	{"own-environment", "find `REDIS_URL` or a setting in its environment", no, no, no},
	{"own-files", "find a descriptor that it inherited", no, no, no},
	{"outlive", "leave a process running after its turn, by `setsid` and a double fork", no, no, no},
	{"worker-environment", "read the environment of worker or guardian", no, no, no},
	{"worker-memory", "read their memory, or trace them", no, no, no},
	{"worker-files", "open or take their descriptors", no, no, no},
	{"worker-signal", "send worker or guardian a signal", yes, no, no},
	{"worker-limits", "lower the worker's limits (`prlimit`)", yes, no, no},
	{"worker-priority", "lower the worker's priority, or keep it from processors", yes, no, no},
	{"user-read", "read files of the worker's user: settings, `~/.ssh`", yes, no, no},
	{"user-write", "write or delete them", yes, no, no},
	{"user-mode", "look at their size, change their mode (`chmod`)", yes, yes, no},
	{"other-environment", "read the environment of the other agent", yes, no, no},
	{"other-memory", "read its memory, or trace it", yes, no, no},
	{"other-files", "open or take its descriptors", yes, no, no},
	{"other-signal", "send it a signal", yes, no, no},
	{"other-command", "read its command line, see that it runs", yes, yes, no},
	{"other-read", "read or list the other session's directory", yes, no, no},
	{"other-watch", "learn names of files there (`inotify`, `fanotify`)", yes, no, no},
	{"other-write", "write, delete or rename there", yes, no, no},
	{"other-temporary", "read or write another program's files in `/tmp`", yes, no, no},
	{"other-shared", "attach its shared memory of System V", yes, yes, no},
	{"other-abstract", "connect to its abstract unix socket", yes, no, yes},
	{"other-socket", "connect to its unix socket by path", yes, yes, no},
	{"redis", "connect to Redis", yes, no, yes},
	{"gateway", "connect to a gateway", yes, no, yes},
	{"pages", "connect to asynqmon and the metrics of the worker", yes, no, yes},
	{"metadata", "connect to another port, such as a cloud's metadata", yes, no, yes},
	{"named", "connect to a port that `TURNSTILE_CONFINED_PORTS` names, on any host", yes, yes, yes},
	{"listen", "listen on a TCP port that it chooses", yes, no, yes},
	{"listen-any", "listen on a TCP port that the kernel chooses", yes, yes, yes},
	{"udp", "send and receive UDP", yes, yes, yes},
	{"privileges", "become another user by a program such as `sudo`", yes, no, no},
}

// recipe is the wrapper of the table.
const recipe = `bwrap --die-with-parent --unshare-user --unshare-pid --unshare-ipc --unshare-uts --ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/lib /lib --symlink usr/lib64 /lib64 --ro-bind-try /etc/ssl /etc/ssl --ro-bind-try /etc/resolv.conf /etc/resolv.conf --ro-bind-try /etc/hosts /etc/hosts --proc /proc --dev /dev --tmpfs /tmp --bind {workspace} {workspace} --bind {home} {home} --setenv HOME {home} --setenv TMPDIR /tmp --chdir {workspace}`

// The page prints the table and the wrapper of the tests.
func TestSecurityPagePrintsTheTable(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	want.WriteString("| an agent can | `none` | `confined` | `wrapper` |\n|---|---|---|---|\n")
	for _, r := range table {
		fmt.Fprintf(&want, "| %s | %s | %s | %s |\n", r.attack, r.none, r.confined, r.wrapper)
	}
	if !strings.Contains(string(page), "\n"+want.String()+"\n") {
		t.Errorf("docs/security.md lacks this table:\n%s", want.String())
	}
	if !strings.Contains(string(page), "TURNSTILE_WRAPPER='"+recipe+"'") {
		t.Errorf("docs/security.md lacks the wrapper that was tested:\n%s", recipe)
	}
}
