package main

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// terminal starts the built program on a terminal of its own, as a shell would.
// It answers what the program writes, where the user types, and a function that
// waits for the exit code.
func terminal(t *testing.T, environ []string, args ...string) (s *said, user *os.File, code func(want int)) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	t.Cleanup(func() { _ = master.Close() })
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
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
	s, user, code := terminal(t, []string{"REDIS_URL=" + url}, "--dev")
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

func TestConsoleCtrlC(t *testing.T) {
	t.Parallel()
	url, c := newRedis(t)
	s, user, code := terminal(t, []string{"REDIS_URL=" + url, "NO_COLOR=1", "TURNSTILE_DRAIN_TIMEOUT=1h"}, "--dev")
	s.await(t, "\n> ")
	typed(t, user, "stream=2 tick=1h long\n")
	s.await(t, "\necho") // half of it
	typed(t, user, "behind\n")
	s.await(t, "waits in line, position 2")
	typed(t, user, ctrlC)
	s.await(t, "Ending when what runs has ended (1), in 1h0m0s at most.")
	s.await(t, "This worker is shutting down.")
	typed(t, user, ctrlC)
	s.await(t, "the turn was cut off by its worker's shutdown; its message stays")
	code(exitOK)
	if strings.Contains(s.String(), "\x1b[1") {
		t.Errorf("colours in spite of NO_COLOR: %q", s)
	}
	if info, err := c.Session(limited(t), consoleSession); err != nil || info.Pending != 2 {
		t.Errorf("%+v, %v", info, err)
	}
}
