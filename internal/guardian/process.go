package guardian

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// Spec is an agent's process to be started.
type Spec struct {
	Path string   // of the executable, as exec.LookPath finds it
	Args []string // the whole command line, the program's name first
	Env  []string // NAME=value; nothing else is inherited
	Dir  string   // empty: the current directory

	// The agent's files, inherited directly. The caller closes its own handles
	// of them after Start.
	Stdin, Stdout, Stderr *os.File

	// Deadline is when the lease ends. Zero: it does not.
	Deadline time.Time
}

// Status is how an agent's process ended.
type Status struct {
	// StartError is set when the agent could not be started, and no other field
	// is then.
	StartError error

	Code   int            // the exit code, 0 if a signal ended it
	Signal syscall.Signal // the signal that ended it, 0 if none did

	// LeaseExpired: the guardian killed it, because the lease ran out.
	LeaseExpired bool

	// GuardianDied: the guardian was killed before it could report.
	GuardianDied bool

	// Left counts descendants that belong to another user and could not be killed.
	Left int
}

// Process is an agent's process under its guardian.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}

	mu       sync.Mutex
	control  *os.File
	deadline int64

	status Status // written before done is closed
}

// Start starts a guardian that starts the agent. A failure to start the agent
// itself is told by Wait's Status; Start's own error says that there is no
// guardian.
func Start(spec Spec) (*Process, error) {
	if !Ready() {
		return nil, ErrNoInit
	}
	self, err := executable()
	if err != nil {
		return nil, fmt.Errorf("guardian: find the own binary: %w", err)
	}
	controlRead, controlWrite, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("guardian: %w", err)
	}
	defer func() { _ = controlRead.Close() }()
	statusRead, statusWrite, err := os.Pipe()
	if err != nil {
		_ = controlWrite.Close()
		return nil, fmt.Errorf("guardian: %w", err)
	}
	defer func() { _ = statusWrite.Close() }()

	cmd := &exec.Cmd{
		Path: self,
		Args: []string{argv0},
		// Not the worker's environment: the agent may read its parent's.
		Env:        []string{envVar + "=1", "GOMAXPROCS=1"},
		Stdin:      spec.Stdin,
		Stdout:     spec.Stdout,
		Stderr:     spec.Stderr,
		ExtraFiles: []*os.File{controlRead, statusWrite},
		// Ctrl-C in the worker's terminal is the worker's business.
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if err := cmd.Start(); err != nil {
		_ = controlWrite.Close()
		_ = statusRead.Close()
		return nil, fmt.Errorf("guardian: %w", err)
	}
	p := &Process{cmd: cmd, done: make(chan struct{}), control: controlWrite}
	if !spec.Deadline.IsZero() {
		p.deadline = onSharedClock(spec.Deadline)
	}
	p.send(launch{
		Path: []byte(spec.Path), Args: toBytes(spec.Args), Env: toBytes(spec.Env),
		Dir: []byte(spec.Dir), Deadline: p.deadline,
	})
	go p.watch(statusRead)
	return p, nil
}

// executable is the path of this very binary. On Linux /proc/self/exe stays
// right when the file was replaced by an upgrade meanwhile.
func executable() (string, error) {
	if runtime.GOOS == "linux" {
		if _, err := os.Stat("/proc/self/exe"); err == nil {
			return "/proc/self/exe", nil
		}
	}
	return os.Executable()
}

// watch waits for the guardian's end.
func (p *Process) watch(reports *os.File) {
	defer close(p.done)
	var pid int
	var last report
	lines := bufio.NewScanner(reports)
	for lines.Scan() {
		var r report
		if json.Unmarshal(lines.Bytes(), &r) != nil {
			break
		}
		if r.Pid != 0 {
			pid = r.Pid
			continue
		}
		last = r
	}
	_ = reports.Close()
	_ = p.cmd.Wait()
	p.mu.Lock()
	_ = p.control.Close()
	p.mu.Unlock()

	switch {
	case last.Error != "":
		p.status = Status{StartError: errors.New(last.Error)}
	case last.Done:
		p.status = Status{
			Code: last.Code, Signal: syscall.Signal(last.Signal),
			LeaseExpired: last.Lease, Left: last.Left,
		}
	default:
		killOrphans(p.cmd.Process.Pid, pid)
		p.status = Status{GuardianDied: true}
	}
}

// Renew tells the guardian that the lease now lasts until deadline. An earlier
// one than before changes nothing.
func (p *Process) Renew(deadline time.Time) {
	at := onSharedClock(deadline)
	p.mu.Lock()
	defer p.mu.Unlock()
	if at > p.deadline {
		p.deadline = at
		p.sendLocked(order{Deadline: at})
	}
}

// Unlease tells the guardian that there is no lease any more, until the next Renew.
func (p *Process) Unlease() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.deadline != 0 {
		p.deadline = 0
		p.sendLocked(order{Unlease: true})
	}
}

// Interrupt sends SIGINT to the agent's process group, and SIGKILL when the
// grace has passed. A second one changes nothing.
func (p *Process) Interrupt(grace time.Duration) {
	ms := int(max(grace, 0).Milliseconds())
	p.send(order{Interrupt: &ms})
}

// Kill sends SIGKILL to everything that the agent started.
func (p *Process) Kill() { p.send(order{Kill: true}) }

// Done is closed when the agent, what it started and its guardian are gone.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait waits for Done and says how the agent ended.
func (p *Process) Wait() Status {
	<-p.done
	return p.status
}

func (p *Process) send(v any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sendLocked(v)
}

// sendLocked does not report errors: a guardian that cannot be written to is
// dead, and watch sees that.
func (p *Process) sendLocked(v any) {
	line, err := json.Marshal(v)
	if err != nil {
		panic(err) // plain structs of strings and numbers
	}
	// Somebody may have stopped it.
	_ = p.cmd.Process.Signal(syscall.SIGCONT)
	_ = p.control.SetWriteDeadline(time.Now().Add(10 * time.Second))
	_, _ = p.control.Write(append(line, '\n'))
}
