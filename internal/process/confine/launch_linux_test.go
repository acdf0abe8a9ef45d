package confine

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"turnstile/test/expect"
)

// A kernel that can do less is refused, with a remedy.
func TestOldKernelsAreRefused(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"this system cannot confine agents: it has no Landlock (function not implemented); use Linux 6.12 or newer with landlock among its LSMs, or TURNSTILE_ISOLATION=wrapper": judge(0, unix.ENOSYS),
		"this system cannot confine agents: its Landlock has version 5, and 6 is needed; use Linux 6.12 or newer, or TURNSTILE_ISOLATION=wrapper":                                judge(leastABI-1, nil),
	} {
		if !errors.Is(err, errUnsupported) {
			t.Errorf("%v", err)
			continue
		}
		expect.Equal(t, "error", err.Error(), want)
	}
}

// deathSignal is an argument with which this binary prints the signal that it gets if its parent dies.
const deathSignal = "test-death-signal"

func init() { // still on the thread that exec left
	if len(os.Args) > 1 && os.Args[1] == deathSignal {
		var signal int32
		err := unix.Prctl(unix.PR_GET_PDEATHSIG, uintptr(unsafe.Pointer(&signal)), 0, 0, 0)
		fmt.Println(signal, err)
		os.Exit(0)
	}
}

// A confined program dies with its guardian, as others do.
func TestDiesWithItsGuardian(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	expect.OK(t, err)
	out, err := start(t, confined(t), []string{self}, self, deathSignal)
	expect.OK(t, err)
	expect.Equal(t, "output", out, "9 <nil>\n")
}

// git is needed by many agents.
func TestGitWorksConfined(t *testing.T) {
	t.Parallel()
	out, err := start(t, confined(t), nil, "sh", "-c", "command -v git >/dev/null || { echo none; exit; }; git init -q x && cd x && git config user.email a@b && git config user.name a && echo 1 >f && git add f && git commit -qm one && git log --format=%s")
	expect.OK(t, err)
	if out == "none\n" {
		t.Skip("NOT TESTED: git is not installed")
	}
	expect.Equal(t, "output", out, "one\n")
}

// A worker that runs as root gives no program its rights. Those of another user have none to give.
func TestHasNoCapabilities(t *testing.T) {
	t.Parallel()
	out, err := start(t, confined(t), nil, "sh", "-c", "grep -E '^Cap(Inh|Prm|Eff|Amb)' /proc/self/status")
	expect.OK(t, err)
	expect.Equal(t, "capabilities", regexp.MustCompile(`\s+`).ReplaceAllString(out, " "),
		"CapInh: 0000000000000000 CapPrm: 0000000000000000 CapEff: 0000000000000000 CapAmb: 0000000000000000 ")
}
