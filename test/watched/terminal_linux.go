package watched

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// Terminal is a pseudo-terminal. Its Output has the program's output.
type Terminal struct {
	*Output
	TTY *os.File // the program's side

	master *os.File
	ended  chan struct{} // the program's side is closed everywhere
}

// NewTerminal opens a terminal.
func NewTerminal(t testing.TB) *Terminal {
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
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	s := &Terminal{Output: NewOutput(), TTY: tty, master: master, ended: make(chan struct{})}
	go func() {
		defer close(s.ended)
		buffer := make([]byte, 4096)
		for {
			n, err := master.Read(buffer)
			if _, _ = s.Write(buffer[:n]); err != nil {
				return // EIO: the last writer closed it
			}
		}
	}()
	t.Cleanup(func() {
		_ = tty.Close()
		<-s.ended
	})
	return s
}

// control calls do with a terminal's file descriptor. After (*os.File).Fd the file could not be
// closed during a read.
func control(t testing.TB, f *os.File, do func(fd int) error) {
	t.Helper()
	raw, err := f.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if cannot := raw.Control(func(fd uintptr) { err = do(int(fd)) }); cannot != nil || err != nil {
		t.Fatal(cannot, err)
	}
}

// Type enters a text, as the user does.
func (s *Terminal) Type(t testing.TB, text string) {
	t.Helper()
	if _, err := s.master.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

// Control calls do with the user's side, to change its size for example.
func (s *Terminal) Control(t testing.TB, do func(fd int) error) {
	t.Helper()
	control(t, s.master, do)
}

// Close closes the program's side here, waits until it is closed everywhere, and returns the whole
// output.
func (s *Terminal) Close() string {
	_ = s.TTY.Close()
	<-s.ended
	return s.String()
}

// HangUp closes the user's side, like the end of a window.
func (s *Terminal) HangUp(t testing.TB) {
	t.Helper()
	if err := s.master.Close(); err != nil {
		t.Fatal(err)
	}
}
