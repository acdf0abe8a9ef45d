package main

import (
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"turnstile/pkg/session"
	"turnstile/test/expect"
	"turnstile/test/hostile"
	"turnstile/test/watched"
)

// onTerminal starts the built program on a new terminal, as a shell would. It returns the terminal,
// and a function that waits for the exit code.
func onTerminal(t *testing.T, environ []string, args ...string) (s *watched.Terminal, code func(want int)) {
	t.Helper()
	s = watched.NewTerminal(t)
	c := newCommand(t, append(environ, "TERM=xterm"), args...)
	c.Stdin, c.Stdout, c.Stderr = s.TTY, s.TTY, s.TTY
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	_ = s.TTY.Close()
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	return s, func(want int) { exits(t, c, s.Output, want) }
}

const (
	ctrlC = "\x03"
	ctrlD = "\x04"
)

func TestConsole(t *testing.T) {
	t.Parallel()
	url, _ := newRedis(t)
	s, code := onTerminal(t, []string{"REDIS_URL=" + url}, "--dev")
	s.Await(t, "\x1b[1m> \x1b[0m") // the prompt
	s.Type(t, "hello\n")
	s.Await(t, "echo: hello\r\n")
	s.Type(t, "tool=search fail=final it\n")
	behind := s.Await(t, "tool search")
	s.Await(t, "failed: echo: told to fail")
	if strings.Contains(behind, "echo: it") {
		t.Errorf("%s", s)
	}
	s.Type(t, "/status\n")
	s.Await(t, "Idle: nothing runs, nothing waits.")
	s.Type(t, ctrlD)
	s.Await(t, "Ending.")
	code(exitOK)
}

// A worker that ends with its own Redis says so, and names no other worker.
func TestConsoleCtrlCKeepsNothing(t *testing.T) {
	t.Parallel()
	s, code := onTerminal(t, []string{"NO_COLOR=1", "TURNSTILE_DRAIN_TIMEOUT=1h"}, "--dev")
	s.Await(t, "\n> ")
	s.Type(t, "stream=2 tick=1h long\n")
	s.Await(t, "\necho") // the beginning of the reply
	s.Type(t, ctrlC)
	s.Await(t, "This worker is shutting down, and nothing is kept.")
	s.Type(t, ctrlC)
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
	s, code := onTerminal(t, []string{"REDIS_URL=" + url, "NO_COLOR=1", "TURNSTILE_DRAIN_TIMEOUT=1h"}, "--dev")
	s.Await(t, "\n> ")
	s.Type(t, "stream=2 tick=1h long\n")
	s.Await(t, "\necho") // the beginning of the reply
	s.Type(t, "behind\n")
	s.Await(t, "waits in the queue, position 2")
	s.Type(t, ctrlC)
	s.Await(t, "Ending.")
	s.Await(t, "draining: 1 turn running, ")
	s.Await(t, "This worker is shutting down.")
	s.Type(t, ctrlC)
	code(exitOK)
	if strings.Contains(s.String(), "\x1b[1") {
		t.Errorf("colours in spite of NO_COLOR: %q", s)
	}
	if info, err := c.Session(consoleSession).Info(limited(t)); err != nil || info.Phase != session.PhaseParked || info.Waiting != 1 {
		t.Errorf("%+v, %v", info, err)
	}
}

// A line at the bottom of a terminal counts down, and says the effect of the next Ctrl-C.
func TestCountdown(t *testing.T) {
	t.Parallel()
	url, c := newRedis(t)
	s, code := onTerminal(t, []string{
		"REDIS_URL=" + url, "NO_COLOR=1", "TURNSTILE_AGENT=exec", "TURNSTILE_DRAIN_TIMEOUT=1h", "TURNSTILE_INTERRUPT_GRACE=1h",
		`TURNSTILE_AGENT_COMMAND=sh -c 'trap "echo interrupted" INT; echo up .; while :; do sleep 1; done'`,
	})
	id := send(t, c, "a", "hello")
	untilText(t, c, "a", id, " .")
	s.Type(t, ctrlC)
	s.Await(t, "draining: 1 turn running, 1h0m0s left (Ctrl-C again: interrupt them now)")
	s.Await(t, "\r\x1b[Kdraining: 1 turn running, 59m59s left (Ctrl-C again: interrupt them now)")
	s.Type(t, ctrlC)
	s.Await(t, "\r\x1b[Kdraining: 1 turn running, being interrupted (Ctrl-C again: end at once)")
	s.Await(t, "\r\x1b[Ktime=") // the log takes its place
	untilText(t, c, "a", id, "interrupted")
	s.Type(t, ctrlC)
	s.Await(t, "\r\x1b[Kworker: ended at once")
	code(exitOther)
}

// A line that does not fit is truncated, because two lines could not be rewritten.
func TestCountdownOnANarrowTerminal(t *testing.T) {
	t.Parallel()
	url, c := newRedis(t)
	s, code := onTerminal(t, []string{"REDIS_URL=" + url, "TURNSTILE_AGENT=echo", "TURNSTILE_DRAIN_TIMEOUT=1h"})
	s.Control(t, func(fd int) error {
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 30})
	})
	id := send(t, c, "a", "sleep=1h hello")
	untilEvent(t, c, "a", id, session.EventTurnStarted)
	s.Type(t, ctrlC)
	s.Await(t, "draining: 1 turn running, 59m\r\x1b[K") // 29 columns
	s.Type(t, ctrlC)
	code(exitOK)
	s.Await(t, "msg=drained")
	if screen := s.String(); strings.Contains(screen, " left (") {
		t.Errorf("%q", screen)
	}
	givenBack(t, c, id, "shutdown_timeout")
}

// Ctrl-D counts as a first Ctrl-C.
func TestCtrlCAfterCtrlD(t *testing.T) {
	t.Parallel()
	url, c := newRedis(t)
	s, code := onTerminal(t, []string{"REDIS_URL=" + url, "TURNSTILE_DRAIN_TIMEOUT=1h"}, "--dev")
	s.Await(t, "> ")
	id := send(t, c, "a", "sleep=1h hello")
	untilEvent(t, c, "a", id, session.EventTurnStarted)
	s.Type(t, ctrlD)
	s.Await(t, "(Ctrl-C again: interrupt them now)")
	s.Type(t, ctrlC)
	code(exitOK)
	givenBack(t, c, id, "shutdown_timeout")
}

// After Ctrl-S nobody sees the log, the countdown and the console. Nothing waits for that.
func TestStoppedTerminal(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{"worker": nil, "--dev": {"--dev"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, c := newRedis(t)
			s, code := onTerminal(t, []string{"REDIS_URL=" + url, "TURNSTILE_AGENT=echo", "TURNSTILE_LOG_LEVEL=info", "TURNSTILE_DRAIN_TIMEOUT=1h"}, args...)
			s.Await(t, "worker started")
			s.Type(t, "\x13")
			for range 3 {
				reply(t, c, "a", "hello")
			}
			id := send(t, c, "a", "sleep=1h hello")
			untilEvent(t, c, "a", id, session.EventTurnStarted)
			var pid int
			s.Control(t, func(fd int) (err error) {
				pid, err = unix.IoctlGetInt(fd, unix.TIOCGPGRP)
				return err
			})
			expect.OK(t, syscall.Kill(pid, syscall.SIGTERM))
			untilEvent(t, c, "a", id, session.EventNotice)
			expect.OK(t, syscall.Kill(pid, syscall.SIGTERM))
			code(exitOK)
			givenBack(t, c, id, "shutdown_timeout")
		})
	}
}

// Closing the terminal ends a --dev.
func TestHangUp(t *testing.T) {
	t.Parallel()
	url, c := newRedis(t)
	s, code := onTerminal(t, []string{"REDIS_URL=" + url, "TURNSTILE_DRAIN_TIMEOUT=0"}, "--dev")
	s.Await(t, "> ")
	id := send(t, c, "a", "sleep=1h hello")
	untilEvent(t, c, "a", id, session.EventTurnStarted)
	s.HangUp(t)
	code(exitOK)
	givenBack(t, c, id, "shutdown_timeout")
}

// The console shows an agent's text, which cannot control its terminal.
func TestConsolePrintsNothingThatSteers(t *testing.T) {
	t.Parallel()
	url, _ := newRedis(t)
	s, code := onTerminal(t, []string{
		"REDIS_URL=" + url, "TURNSTILE_AGENT=exec", "TURNSTILE_AGENT_FORMAT=jsonl", playing(t, "speak-hostilely"),
		"TURNSTILE_HTTP_ADDR=" + freeAddr(t), "TURNSTILE_LOG_LEVEL=debug",
	}, "--dev")
	s.Await(t, "\x1b[1m> \x1b[0m") // the prompt
	s.Type(t, "please ask\n")
	s.Await(t, "permission asked")
	s.Type(t, "/status\n")
	s.Await(t, "0 waiting.")
	s.Type(t, "/approve\n")
	s.Await(t, "used: ")
	s.Type(t, "please fail\n")
	s.Await(t, "\x1b[1;33mfailed: ")
	s.Type(t, "/history\n")
	s.Await(t, "user: please ask")
	s.Type(t, ctrlD)
	s.Await(t, "Ending.")
	code(exitOK)
	hostile.CheckTerminal(t, "the console", s.String())
}
