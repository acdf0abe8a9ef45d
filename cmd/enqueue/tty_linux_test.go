package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// openTerminal makes a pseudo-terminal: what is written to tty is read back with
// screen, which closes it.
func openTerminal(t *testing.T) (tty *os.File, screen func() string) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = master.Close() })
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	read := make(chan string, 1)
	go func() {
		var b bytes.Buffer
		_, _ = io.Copy(&b, master) // ends with EIO when the last writer has gone
		read <- b.String()
	}()
	return tty, func() string {
		_ = tty.Close()
		return <-read
	}
}

func TestProgressOnATerminalOnly(t *testing.T) {
	t.Parallel()
	url, _ := newRedis(t)
	turns(t, url, hour, echo)
	file := manyLines(20, 20)
	for _, name := range []string{writeFile(t, file), "-"} {
		for _, wait := range []bool{false, true} {
			args, shown := []string{"--file", name}, " in"
			if wait {
				args, shown = append(args, "--wait"), " answered"
			}
			tty, screen := openTerminal(t)
			var out bytes.Buffer
			code := run(bg(t), args, strings.NewReader(file), &out, tty, []string{"REDIS_URL=" + url})
			if code != exitOK {
				t.Errorf("%v: exit code %d", args, code)
			}
			seen := screen()
			if !strings.Contains(seen, "\r") || !strings.Contains(seen, shown) {
				t.Errorf("%v: no progress on the terminal: %q", args, seen)
			}
			if name != "-" && !strings.Contains(seen, "%") {
				t.Errorf("%v: no part of the whole: %q", args, seen)
			}
			// The bar is gone in the end, and never on stdout.
			if last := seen[strings.LastIndex(strings.TrimRight(seen, "\r"), "\r")+1:]; strings.TrimSpace(last) != "" {
				t.Errorf("%v: left on the terminal: %q", args, last)
			}
			if strings.Contains(out.String(), "\r") || !strings.Contains(out.String(), "400 put in") {
				t.Errorf("%v: stdout %q", args, out.String())
			}
		}
	}
}

func TestATerminalIsToldWhatIsWaitedFor(t *testing.T) {
	t.Parallel()
	url, _ := newRedis(t)
	turns(t, url, hour, echo)
	tty, screen := openTerminal(t)
	var out bytes.Buffer
	code := run(bg(t), []string{"-s", "a", "--id", "m", "--wait", "hello"}, nil, &out, tty, []string{"REDIS_URL=" + url})
	if seen := screen(); code != exitOK || out.String() != "echo: hello\n" || seen != "accepted as m\r\n" {
		t.Errorf("exit code %d, stdout %q, terminal %q", code, out.String(), seen)
	}
}

// With both on one screen, a note does not end up behind a half line of text.
func TestFollowOnATerminal(t *testing.T) {
	t.Parallel()
	tty, screen := openTerminal(t)
	out := newOutput(tty, tty, nil)
	out.text("half a line")
	out.note("tool grep")
	out.text("another")
	out.endLine()
	out.endLine()
	if seen := screen(); seen != "half a line\r\ntool grep\r\nanother\r\n" {
		t.Errorf("%q", seen)
	}
}

// What stands on a terminal may have colours; elsewhere, and with NO_COLOR, it
// has none.
func TestColoursAreForTerminals(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		environ []string
		want    string
	}{
		{[]string{"TERM=xterm"}, "\x1b[2mtool grep\x1b[0m\n\x1b[1;33mcut off\x1b[0m\n"},
		{[]string{"TERM=xterm", "NO_COLOR=1"}, "tool grep\ncut off\n"},
		{[]string{"TERM=dumb"}, "tool grep\ncut off\n"},
	} {
		tty, screen := openTerminal(t)
		out := newOutput(io.Discard, tty, c.environ)
		out.remark("tool grep", false)
		out.remark("cut off", true)
		if seen := strings.ReplaceAll(screen(), "\r\n", "\n"); seen != c.want {
			t.Errorf("%v: %q", c.environ, seen)
		}
	}
}
