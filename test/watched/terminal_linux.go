package watched

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// Terminal is a pseudo-terminal. What a program writes on it is in its Output.
type Terminal struct {
	*Output
	TTY *os.File // the program's side

	master *os.File
	ended  chan struct{} // nobody has the program's side open any more
}

// NewTerminal opens one.
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
				return // EIO: the last writer has gone
			}
		}
	}()
	t.Cleanup(func() {
		_ = tty.Close()
		<-s.ended
	})
	return s
}

// control does something to a terminal. (*os.File).Fd would let nobody close it
// while it is read.
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

// Control does something to the user's side, such as a change of its size.
func (s *Terminal) Control(t testing.TB, do func(fd int) error) {
	t.Helper()
	control(t, s.master, do)
}

// Close closes the program's side here, waits until everybody has, and returns all that
// was written.
func (s *Terminal) Close() string {
	_ = s.TTY.Close()
	<-s.ended
	return s.String()
}

// HangUp closes the user's side, as a window's end does.
func (s *Terminal) HangUp(t testing.TB) {
	t.Helper()
	if err := s.master.Close(); err != nil {
		t.Fatal(err)
	}
}
