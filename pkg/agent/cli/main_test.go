package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	osexec "os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"turnstile/internal/process/confine"
	"turnstile/internal/process/guardian"
	"turnstile/test/expect"
	"turnstile/test/mcpserver"
)

// The test binary is also the guardian, and the fake programs.
func TestMain(m *testing.M) {
	confine.Init()
	guardian.Init()
	mcpserver.Init()
	syscall.Umask(0o022) // only its owner may write to t.TempDir
	if len(os.Args) > 3 && os.Args[1] == "test-role" {
		role, ok := map[string]func(string, []string) int{"fake": fakeRole, "tee": teeRole}[os.Args[2]]
		if !ok {
			fmt.Fprintln(os.Stderr, "no such role:", os.Args[2])
			os.Exit(99)
		}
		syscall.Exit(role(os.Args[3], os.Args[4:]))
	}
	for name, value := range map[string]string{ // each program gets some of them
		"ANTHROPIC_TEST": "a", "CLAUDE_TEST": "c", "OPENAI_TEST": "o", "CODEX_TEST": "x",
		"GEMINI_TEST": "g", "GOOGLE_TEST": "l", "OTHER_TEST": "other-secret", "TURNSTILE_HTTP_TOKEN": "secret",
	} {
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}
	expect.AtOnce(4)
	goleak.VerifyTestMain(m)
}

func roleCommand(role, arg string, args ...string) []string {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return append([]string{self, "test-role", role, arg}, args...)
}

// play is the script of a fake program.
type play struct {
	File   string // a file of testdata for stdout, or
	Out    string // this text
	Err    string // to stderr
	Exit   int
	Hang   bool   // it then waits to be killed
	Deaf   bool   // it does not read its stdin
	Signal bool   // it ends with a signal
	Ignore bool   // it ignores SIGINT
	Close  bool   // it closes its stdout after Out
	Yes    string // it writes this without end
}

// badByte stands for a byte that is not UTF-8, which JSON could not carry.
const badByte = "<FF>"

// plays are the scripts of the first start, the second and so on; the last is that of all further
// ones.
type plays []play

// invocation is how a fake program was started.
type invocation struct {
	Args  []string
	Stdin string
	Env   []string
	Dir   string
	Mode  os.FileMode // of Dir
}

// fakeRole plays the next of dir/plays.json and writes an invocation to dir.
func fakeRole(dir string, args []string) int {
	code, err := fake(dir, args)
	if err != nil {
		fmt.Fprintln(os.Stderr, "fake:", err)
		return 98
	}
	return code
}

func fake(dir string, args []string) (code int, err error) {
	data, err := os.ReadFile(filepath.Join(dir, "plays.json"))
	if err != nil {
		return 0, err
	}
	var all plays
	if err := json.Unmarshal(data, &all); err != nil {
		return 0, err
	}
	earlier, err := filepath.Glob(filepath.Join(dir, "invocation-*"))
	if err != nil {
		return 0, err
	}
	n := len(earlier)
	p := all[min(n, len(all)-1)]
	h := invocation{Args: args, Env: os.Environ()}
	if !p.Deaf {
		in, err := io.ReadAll(os.Stdin)
		if err != nil {
			return 0, err
		}
		h.Stdin = string(in)
	}
	if h.Dir, err = os.Getwd(); err != nil {
		return 0, err
	}
	info, err := os.Stat(h.Dir)
	if err != nil {
		return 0, err
	}
	h.Mode = info.Mode().Perm()
	if data, err = json.Marshal(h); err != nil {
		return 0, err
	}
	if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("invocation-%d", n)), data, 0o600); err != nil {
		return 0, err
	}
	if p.File != "" {
		out, err := os.ReadFile(p.File)
		if err != nil {
			return 0, err
		}
		p.Out = string(out)
	}
	if p.Ignore {
		signal.Ignore(syscall.SIGINT)
	}
	fmt.Fprint(os.Stderr, p.Err)
	fmt.Print(strings.ReplaceAll(p.Out, badByte, "\xff"))
	if p.Close {
		_ = os.Stdout.Close()
	}
	for p.Yes != "" {
		if _, err := os.Stdout.WriteString(p.Yes); err != nil {
			return 0, err
		}
	}
	if p.Signal {
		_ = syscall.Kill(os.Getpid(), syscall.SIGTERM)
	}
	for p.Hang || p.Signal {
		time.Sleep(time.Hour)
	}
	return p.Exit, nil
}

// fakeProgram is the command of a fake program. listen returns how it was started so far.
func fakeProgram(t *testing.T, all ...play) (command []string, listen func() []invocation) {
	t.Helper()
	dir := t.TempDir()
	for i, p := range all {
		if p.File != "" {
			abs, err := filepath.Abs(filepath.Join("testdata", p.File))
			if err != nil {
				t.Fatal(err)
			}
			all[i].File = abs
		}
	}
	data, err := json.Marshal(plays(all))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "plays.json"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	return roleCommand("fake", dir), func() (all []invocation) {
		files, _ := filepath.Glob(filepath.Join(dir, "invocation-*"))
		slices.Sort(files)
		for _, name := range files {
			var h invocation
			data, err := os.ReadFile(name)
			if err == nil {
				err = json.Unmarshal(data, &h)
			}
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, h)
		}
		return all
	}
}

// teeRole runs a real program and copies its stdout to a file.
func teeRole(file string, args []string) int {
	out, err := os.Create(file)
	if err != nil {
		fmt.Fprintln(os.Stderr, "tee:", err)
		return 98
	}
	cmd := osexec.Command(args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, io.MultiWriter(os.Stdout, out), os.Stderr
	err = cmd.Run()
	_ = out.Close()
	if err != nil && cmd.ProcessState == nil {
		fmt.Fprintln(os.Stderr, "tee:", err)
		return 98
	}
	return cmd.ProcessState.ExitCode()
}

// has reports whether an environment has the entry, or one with that name.
func has(env []string, entry string) bool {
	return slices.ContainsFunc(env, func(e string) bool {
		return e == entry || !strings.Contains(entry, "=") && strings.HasPrefix(e, entry+"=")
	})
}
