package main

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"turnstile/pkg/session"
	"turnstile/test/hostile"
)

// onTerminal starts the built program on a terminal of its own, as a shell would.
// It answers what the program writes, where the user types, and a function that
// waits for the exit code.
func onTerminal(t *testing.T, environ []string, args ...string) (s *said, user *os.File, code func(want int)) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	t.Cleanup(func() { _ = master.Close() })
	var n int
	control(t, master, func(fd int) (err error) {
		if n, err = unix.IoctlGetInt(fd, unix.TIOCGPTN); err == nil {
			err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
		}
		return err
	})
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	c := newCommand(t, append(environ, "TERM=xterm"), args...)
	c.Stdin, c.Stdout, c.Stderr = slave, slave, slave
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	_ = slave.Close()
	s = newSaid()
	done := make(chan struct{})
	go func() {
		defer close(done)
		buffer := make([]byte, 4096)
		for {
			n, err := master.Read(buffer)
			if _, _ = s.Write(buffer[:n]); err != nil {
				return // the program has ended
			}
		}
	}()
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
		<-done
	})
	return s, master, func(want int) { exits(t, c, s, want) }
}

// control does something to a terminal. (*os.File).Fd would let nobody close it
// while it is read.
func control(t *testing.T, f *os.File, do func(fd int) error) {
	t.Helper()
	raw, err := f.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if cannot := raw.Control(func(fd uintptr) { err = do(int(fd)) }); cannot != nil || err != nil {
		t.Fatal(cannot, err)
	}
}

func typed(t *testing.T, user *os.File, text string) {
	t.Helper()
	if _, err := user.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

const (
	ctrlC = "\x03"
	ctrlD = "\x04"
)

func TestConsole(t *testing.T) {
	t.Parallel()
	url, _ := newRedis(t)
	s, user, code := onTerminal(t, []string{"REDIS_URL=" + url}, "--dev")
	s.await(t, "\x1b[1m> \x1b[0m") // asks
	typed(t, user, "hello\n")
	s.await(t, "echo: hello\r\n")
	typed(t, user, "tool=search fail=final it\n")
	behind := s.await(t, "tool search")
	s.await(t, "failed: echo: told to fail")
	if strings.Contains(behind, "echo: it") {
		t.Errorf("%s", s)
	}
	typed(t, user, "/status\n")
	s.await(t, "Idle: nothing runs, nothing waits.")
	typed(t, user, ctrlD)
	s.await(t, "Ending.")
	code(exitOK)
}

// What ends with its own Redis says so, and not that another worker goes on.
func TestConsoleCtrlCKeepsNothing(t *testing.T) {
	t.Parallel()
	s, user, code := onTerminal(t, []string{"NO_COLOR=1", "TURNSTILE_DRAIN_TIMEOUT=1h"}, "--dev")
	s.await(t, "\n> ")
	typed(t, user, "stream=2 tick=1h long\n")
	s.await(t, "\necho") // half of it
	typed(t, user, ctrlC)
	s.await(t, "This worker is shutting down, and nothing is kept.")
	typed(t, user, ctrlC)
	code(exitOK)
	for _, wrong := range []string{"another worker", "stays", "resume"} {
		if strings.Contains(s.String(), wrong) {
			t.Errorf("it says %q: %s", wrong, s)
		}
	}
}

func TestConsoleCtrlC(t *testing.T) {
	t.Parallel()
	url, c := newRedis(t)
	s, user, code := onTerminal(t, []string{"REDIS_URL=" + url, "NO_COLOR=1", "TURNSTILE_DRAIN_TIMEOUT=1h"}, "--dev")
	s.await(t, "\n> ")
	typed(t, user, "stream=2 tick=1h long\n")
	s.await(t, "\necho") // half of it
	typed(t, user, "behind\n")
	s.await(t, "waits in line, position 2")
	typed(t, user, ctrlC)
	s.await(t, "Ending.")
	s.await(t, "draining: 1 turn running, ")
	s.await(t, "This worker is shutting down.")
	typed(t, user, ctrlC)
	code(exitOK)
	if strings.Contains(s.String(), "\x1b[1") {
		t.Errorf("colours in spite of NO_COLOR: %q", s)
	}
	if info, err := c.Session(limited(t), consoleSession); err != nil || info.Pending != 2 {
		t.Errorf("%+v, %v", info, err)
	}
}

// On a terminal a line counts down, below the log, and says what the next Ctrl-C
// would do.
func TestCountdown(t *testing.T) {
	t.Parallel()
	url, c := newRedis(t)
	s, user, code := onTerminal(t, []string{
		"REDIS_URL=" + url, "NO_COLOR=1", "TURNSTILE_AGENT=exec", "TURNSTILE_DRAIN_TIMEOUT=1h", "TURNSTILE_INTERRUPT_GRACE=1h",
		`TURNSTILE_AGENT_COMMAND=sh -c 'trap "echo interrupted" INT; echo up .; while :; do sleep 1; done'`,
	})
	id := submit(t, c, "a", "hello")
	untilText(t, c, "a", id, " .")
	typed(t, user, ctrlC)
	s.await(t, "draining: 1 turn running, 1h0m0s left (Ctrl-C again: interrupt them now)")
	s.await(t, "\r\x1b[Kdraining: 1 turn running, 59m59s left (Ctrl-C again: interrupt them now)")
	typed(t, user, ctrlC)
	s.await(t, "\r\x1b[Kdraining: 1 turn running, being interrupted (Ctrl-C again: end at once)")
	s.await(t, "\r\x1b[Ktime=") // the log takes its place
	untilText(t, c, "a", id, "interrupted")
	typed(t, user, ctrlC)
	s.await(t, "\r\x1b[Kworker: ended at once")
	code(exitOther)
}

// What does not fit is cut off: in two lines it could not be rewritten.
func TestCountdownOnANarrowTerminal(t *testing.T) {
	t.Parallel()
	url, c := newRedis(t)
	s, user, code := onTerminal(t, []string{"REDIS_URL=" + url, "TURNSTILE_AGENT=echo", "TURNSTILE_DRAIN_TIMEOUT=1h"})
	control(t, user, func(fd int) error {
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 30})
	})
	id := submit(t, c, "a", "sleep=1h hello")
	untilEvent(t, c, "a", id, session.EventTurnStarted)
	typed(t, user, ctrlC)
	s.await(t, "draining: 1 turn running, 59m\r\x1b[K") // 29 columns
	typed(t, user, ctrlC)
	code(exitOK)
	s.await(t, "msg=drained")
	if screen := s.String(); strings.Contains(screen, " left (") {
		t.Errorf("%q", screen)
	}
	givenBack(t, c, id, "shutdown_timeout")
}

// Ctrl-D is as good as a first Ctrl-C.
func TestCtrlCAfterCtrlD(t *testing.T) {
	t.Parallel()
	url, c := newRedis(t)
	s, user, code := onTerminal(t, []string{"REDIS_URL=" + url, "TURNSTILE_DRAIN_TIMEOUT=1h"}, "--dev")
	s.await(t, "> ")
	id := submit(t, c, "a", "sleep=1h hello")
	untilEvent(t, c, "a", id, session.EventTurnStarted)
	typed(t, user, ctrlD)
	s.await(t, "(Ctrl-C again: interrupt them now)")
	typed(t, user, ctrlC)
	code(exitOK)
	givenBack(t, c, id, "shutdown_timeout")
}

// A terminal that is closed ends what somebody tried out on it.
func TestHangUp(t *testing.T) {
	t.Parallel()
	url, c := newRedis(t)
	s, user, code := onTerminal(t, []string{"REDIS_URL=" + url, "TURNSTILE_DRAIN_TIMEOUT=0"}, "--dev")
	s.await(t, "> ")
	id := submit(t, c, "a", "sleep=1h hello")
	untilEvent(t, c, "a", id, session.EventTurnStarted)
	if err := user.Close(); err != nil {
		t.Fatal(err)
	}
	code(exitOK)
	givenBack(t, c, id, "shutdown_timeout")
}

// The console shows an agent's words, and they do not steer its terminal.
func TestConsolePrintsNothingThatSteers(t *testing.T) {
	t.Parallel()
	url, _ := newRedis(t)
	s, user, code := onTerminal(t, []string{
		"REDIS_URL=" + url, "TURNSTILE_AGENT=exec", "TURNSTILE_AGENT_FORMAT=jsonl", playing(t, "speak-hostilely"),
		"TURNSTILE_HTTP_ADDR=" + freeAddr(t), "TURNSTILE_LOG_LEVEL=debug",
	}, "--dev")
	s.await(t, "\x1b[1m> \x1b[0m") // asks
	typed(t, user, "please ask\n")
	s.await(t, "permission asked")
	typed(t, user, "/status\n")
	s.await(t, "0 waiting.")
	typed(t, user, "/approve\n")
	s.await(t, "used: ")
	typed(t, user, "please fail\n")
	s.await(t, "\x1b[1;33mfailed: ")
	typed(t, user, "/history\n")
	s.await(t, "user: please ask")
	typed(t, user, ctrlD)
	s.await(t, "Ending.")
	code(exitOK)
	hostile.CheckTerminal(t, "the console", s.String())
}
