//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// program runs on a pseudo-terminal of its own, whose screen is a pane.
type program struct {
	cmd    *exec.Cmd
	pane   *pane
	master *os.File
	read   chan struct{} // closed once all that it printed is on the pane
}

// start runs a line in a shell. The program must be waited for or ended.
func start(p *pane, environ []string, line string) (*program, error) {
	master, slave, err := openTerminal(columns, p.rows)
	if err != nil {
		return nil, fmt.Errorf("open a pseudo-terminal: %w", err)
	}
	defer slave.Close()
	// Its life is bounded by wait and end, and a drain must outlive a cancelled context.
	cmd := exec.CommandContext(context.Background(), "sh", "-c", "exec "+line)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = environ, slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, master.Close())
	}
	g := &program{cmd: cmd, pane: p, master: master, read: make(chan struct{})}
	go func() {
		defer close(g.read)
		buffer := make([]byte, 4096)
		for {
			n, err := master.Read(buffer) // fails when the program has ended
			p.print(string(buffer[:n]))
			if err != nil {
				return
			}
		}
	}()
	return g, nil
}

func (g *program) wait() error {
	err := g.cmd.Wait()
	<-g.read
	return errors.Join(err, g.master.Close())
}

// end stops it as Ctrl-C would. What it prints then is not shown.
func (g *program) end() {
	g.pane.close()
	_ = g.cmd.Process.Signal(os.Interrupt)
	_ = g.wait()
}

// says waits until text is on the pane.
func (g *program) says(ctx context.Context, text string) error {
	for {
		changed := g.pane.changed()
		if g.pane.shows(text) {
			return nil
		}
		select {
		case <-changed:
		case <-g.read:
			return fmt.Errorf("the program ended and did not say %q", text)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func openTerminal(columns, rows int) (master, slave *os.File, err error) {
	master, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, err
	}
	raw, err := master.SyscallConn()
	if err != nil {
		return nil, nil, errors.Join(err, master.Close())
	}
	var number int
	cannot := raw.Control(func(fd uintptr) {
		size := &unix.Winsize{Row: uint16(rows), Col: uint16(columns)}
		if err = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, size); err != nil {
			return
		}
		if err = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); err == nil {
			number, err = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		}
	})
	if err := errors.Join(cannot, err); err != nil {
		return nil, nil, errors.Join(err, master.Close())
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, errors.Join(err, master.Close())
	}
	return master, slave, nil
}
