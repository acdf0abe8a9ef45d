//go:build unix

package guardian

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"turnstile/test/expect"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "test-no-init" {
		_, err := Start(Spec{Path: "/bin/true", Args: []string{"true"}})
		if !errors.Is(err, ErrNoInit) {
			syscall.Exit(1)
		}
		syscall.Exit(0)
	}
	Init()
	goleak.VerifyTestMain(m)
}

// start runs a shell script under a guardian and returns its output.
func start(t *testing.T, script string, deadline time.Time) (*Process, *os.File) {
	t.Helper()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p, err := Start(Spec{
		Path: "/bin/sh", Args: []string{"sh", "-c", script}, Env: []string{"PATH=" + os.Getenv("PATH")},
		Stdin: null, Stdout: w, Stderr: w, Deadline: deadline,
	})
	_ = null.Close()
	_ = w.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill()
		<-p.Done()
		_ = r.Close()
	})
	return p, r
}

func firstByte(t *testing.T, r io.Reader) {
	t.Helper()
	if _, err := io.ReadFull(r, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
}

func TestStatus(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]Status{
		"true":          {},
		"exit 42":       {Code: 42},
		"exit 255":      {Code: 255},
		"kill -TERM $$": {Signal: syscall.SIGTERM},
	} {
		p, _ := start(t, script, time.Time{})
		if got := p.Wait(); got != want {
			t.Errorf("%s: %+v, want %+v", script, got, want)
		}
	}
}

// An error says whether this machine is at fault, or what it was given.
func TestStartErrors(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("text"), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	long := strings.Repeat("x", 200<<10)
	for name, c := range map[string]struct {
		spec Spec
		want string
		own  bool
	}{
		"no program":                   {Spec{Path: "/no/such/program"}, "no such file", false},
		"no program, in a directory":   {Spec{Path: "/no/such/program", Dir: "/"}, "no such file", false},
		"a directory":                  {Spec{Path: "/"}, "permission denied", false},
		"no executable":                {Spec{Path: file}, "exec format error", false},
		"below a file":                 {Spec{Path: file + "/x"}, "not a directory", false},
		"no directory":                 {Spec{Path: "/bin/true", Dir: "/no/such"}, "no such file", true},
		"a file for a directory":       {Spec{Path: "/bin/true", Dir: file}, "not a directory", true},
		"a long argument":              {Spec{Path: "/bin/true", Args: []string{"true", long}}, "argument list too long", true},
		"a long variable":              {Spec{Path: "/bin/true", Env: []string{"A=" + long}}, "argument list too long", true},
		"a zero byte":                  {Spec{Path: "/bin/true", Args: []string{"true", "a\x00b"}}, "invalid argument", true},
		"a zero byte in a variable":    {Spec{Path: "/bin/true", Env: []string{"A=\x00"}}, "invalid argument", true},
		"a zero byte in the directory": {Spec{Path: "/bin/true", Dir: "/\x00"}, "invalid argument", true},
	} {
		p, err := Start(c.spec)
		if err != nil {
			t.Fatal(err)
		}
		if s := p.Wait(); s.StartError == nil || !strings.Contains(s.StartError.Error(), c.want) || s.OwnFault != c.own {
			t.Errorf("%s: %+v, want %s, own %v", name, s, c.want, c.own)
		}
	}
	if err := Check(); err != nil {
		t.Error(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := exec.Command(self, "test-no-init").Run(); err != nil {
		t.Errorf("Start without Init: %v", err)
	}
}

// Neither the name nor the variable alone makes a process a guardian: this one finds no test to run
// and succeeds, while a guardian without a launch would fail.
func TestInitNeedsBothMarks(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, cmd := range []*exec.Cmd{
		{Path: self, Args: []string{argv0, "-test.run=none"}, Env: []string{"A=b"}},
		{Path: self, Args: []string{"x", "-test.run=none"}, Env: []string{envVar + "=1"}},
	} {
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%q %q: %v %s", cmd.Args, cmd.Env, err, out)
		}
	}
}

func TestOrders(t *testing.T) {
	t.Parallel()
	const deaf = `trap "" INT; echo; sleep 1000; sleep 1000`
	t.Run("kill", func(t *testing.T) {
		t.Parallel()
		p, out := start(t, deaf, time.Time{})
		firstByte(t, out)
		p.Kill()
		p.Kill()
		if s := p.Wait(); s.Signal != syscall.SIGKILL {
			t.Errorf("%+v", s)
		}
		p.Kill()
		p.Interrupt(time.Second)
		p.Renew(time.Now().Add(time.Hour))
	})
	t.Run("kill cuts a grace short", func(t *testing.T) {
		t.Parallel()
		p, out := start(t, deaf, time.Time{})
		firstByte(t, out)
		p.Interrupt(time.Hour)
		p.Kill()
		if s := p.Wait(); s.Signal != syscall.SIGKILL {
			t.Errorf("%+v", s)
		}
	})
	t.Run("a second interrupt prolongs nothing", func(t *testing.T) {
		t.Parallel()
		p, out := start(t, deaf, time.Time{})
		firstByte(t, out)
		p.Interrupt(10 * time.Millisecond)
		p.Interrupt(time.Hour)
		if s := p.Wait(); s.Signal != syscall.SIGKILL || s.LeaseExpired {
			t.Errorf("%+v", s)
		}
	})
}

// A stopped guardian is killed with its agent, and nothing waits for it.
func TestStoppedGuardianIsKilled(t *testing.T) {
	t.Parallel()
	p, out := start(t, "echo; sleep 1000", time.Time{})
	firstByte(t, out)
	if err := syscall.Kill(p.cmd.Process.Pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	p.forceAfter(time.Hour)
	p.forceAfter(-overdueAfter) // the earlier deadline counts
	if s := p.Wait(); s != (Status{GuardianDied: true}) {
		t.Errorf("%+v", s)
	}
	if _, err := out.Read(make([]byte, 1)); runtime.GOOS == "linux" && err != io.EOF {
		t.Errorf("the agent has its output still: %v", err)
	}
}

// A guardian's report counts only if the guardian then ended by itself. It is not delayed by
// another process that keeps the channel open.
func TestReportOfAKilledGuardianIsIgnored(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]Status{
		`echo '{"done":true,"code":3}' >&3`:                              {Code: 3},
		`echo '{"done":true}' >&3; kill -KILL $$`:                        {GuardianDied: true},
		`echo '{"done":true}' >&3; exit 2`:                               {GuardianDied: true},
		`echo nonsense >&3`:                                              {GuardianDied: true},
		`exit 0`:                                                         {GuardianDied: true},
		`exit 2`:                                                         {StartError: errors.New("guardian: it ended with exit status 2: are there too many processes, or too little memory?")},
		`echo '{"done":true}' >&3; sleep 1000 & exit 0`:                  {},
		`sleep 1000 <&3 & echo "$!" >&3; kill -KILL $$`:                  {GuardianDied: true},
		`echo '{"error":"x"}' >&3; sleep 1000 & exit 9`:                  {GuardianDied: true},
		`echo '{"pid":99999999}' >&3; yes '{"done":true}' >&3 & wait $!`: {GuardianDied: true},
	} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			ours, theirs, err := SocketPair()
			if err != nil {
				t.Fatal(err)
			}
			// Like Start, but with another program.
			cmd := exec.Command("sh", "-c", script)
			cmd.ExtraFiles, cmd.SysProcAttr = []*os.File{theirs}, &syscall.SysProcAttr{Setsid: true}
			p := &Process{cmd: cmd, done: make(chan struct{}), channel: ours}
			if err := guardians.start(cmd); err != nil {
				t.Fatal(err)
			}
			_ = theirs.Close()
			go p.watch()
			t.Cleanup(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
			if strings.HasPrefix(script, "echo '{\"pid") {
				p.forceAfter(100*time.Millisecond - overdueAfter) // it reports without end
			}
			expect.Equal(t, "status", fmt.Sprintf("%+v", p.Wait()), fmt.Sprintf("%+v", want))
		})
	}
}

func TestLease(t *testing.T) {
	t.Parallel()
	for _, ends := range []time.Duration{-time.Second, 0, 50 * time.Millisecond} {
		p, _ := start(t, "sleep 1000", time.Now().Add(ends))
		// An earlier deadline neither shortens nor extends the lease.
		p.Renew(time.Now().Add(ends - time.Hour))
		if s := p.Wait(); !s.LeaseExpired {
			t.Errorf("a lease of %s: %+v", ends, s)
		}
	}
	p, out := start(t, "sleep 1.7; echo x", time.Now().Add(1500*time.Millisecond))
	p.Renew(time.Now().Add(time.Hour))
	firstByte(t, out)
	if s := p.Wait(); s != (Status{}) {
		t.Errorf("renewed: %+v", s)
	}
}

// A deadline that is converted late is too early, never too late.
func TestSharedClock(t *testing.T) {
	t.Parallel()
	before := sharedClock()
	at := onSharedClock(time.Now().Add(time.Minute))
	after := sharedClock()
	if minute := int64(time.Minute); at < before+minute-int64(time.Second) || at > after+minute {
		t.Errorf("%d is not a minute after %d..%d", at, before, after)
	}
}
