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

const (
	// lastWords bounds the wait for a report after the guardian's end. A report has arrived by
	// then.
	lastWords = time.Second

	// overdueAfter is how long a guardian may take to end after it had to kill its agent. The
	// guardian itself waits for processes that it may not kill.
	overdueAfter = giveUpAfter + 3*time.Second
)

// Spec describes an agent's process to start.
type Spec struct {
	Path string   // of the executable, as exec.LookPath returns it
	Args []string // the whole command line, the program's name first
	Env  []string // NAME=value; nothing else is inherited
	Dir  string   // empty: the current directory

	// Kill is a command, with its path, that the guardian runs after the agent's end, to end what is
	// not its descendant. It runs with Env and must succeed if there is nothing to end. The worker
	// runs it if the guardian dies. Empty: none.
	Kill []string

	// The agent's files, inherited directly. The caller closes its own handles after Start.
	Stdin, Stdout, Stderr *os.File

	// Launcher says that the program is this binary, see Launch.
	Launcher bool

	// Deadline is the end of the lease. Zero: no lease.
	Deadline time.Time
}

// Status describes the end of an agent's process.
type Status struct {
	// StartError is why the agent could not be started, and OwnFault says that its arguments, its variables or its
	// Dir are at fault, and not this machine. With it, no other field is set.
	StartError error
	OwnFault   bool

	Code   int            // the exit code, 0 if a signal ended it
	Signal syscall.Signal // the signal that ended it, 0 if none did

	// LeaseExpired reports that the guardian killed the agent because the lease ended.
	LeaseExpired bool

	// GuardianDied reports that the guardian was killed, or ended without a report. Its earlier
	// reports are ignored.
	GuardianDied bool

	// Left counts processes of the agent that could not be killed because they belong to another
	// user, and 1 for a Kill that failed. If GuardianDied, it is also 1 when they could not be counted.
	Left int
}

// Process is an agent's process under its guardian.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}

	kill, env []string // of the Spec
	launcher  bool

	channel *os.File // orders go one way, reports the other

	mu       sync.Mutex // one order at a time
	deadline int64
	force    *time.Timer // kills a guardian that does not obey
	forceAt  time.Time

	status Status // written before done is closed
}

// Start starts a guardian, which starts the agent. Its error means that there is no guardian. A
// failure to start the agent is in the Status of Wait.
func Start(spec Spec) (*Process, error) {
	if !Ready() {
		return nil, ErrNoInit
	}
	self, err := executable()
	if err != nil {
		return nil, fmt.Errorf("guardian: find this program's binary: %w: mount /proc", err)
	}
	ours, theirs, err := SocketPair()
	if err != nil {
		return nil, fmt.Errorf("guardian: %w", err)
	}
	defer func() { _ = theirs.Close() }()
	cmd := &exec.Cmd{
		Path: self,
		Args: []string{argv0},
		// Not the worker's environment, because the agent may read its parent's.
		Env:        []string{envVar + "=1", "GOMAXPROCS=1"},
		Stdin:      spec.Stdin,
		Stdout:     spec.Stdout,
		Stderr:     spec.Stderr,
		ExtraFiles: []*os.File{theirs},
		// Only the worker handles Ctrl-C in its terminal.
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	prepareForStrays()
	if err := guardians.start(cmd); err != nil {
		_ = ours.Close()
		return nil, fmt.Errorf("guardian: %w", err)
	}
	p := &Process{cmd: cmd, done: make(chan struct{}), kill: spec.Kill, launcher: spec.Launcher, channel: ours}
	if len(spec.Kill) > 0 {
		p.env = spec.Env
	}
	if !spec.Deadline.IsZero() {
		p.deadline = onSharedClock(spec.Deadline)
	}
	p.send(launch{
		Path: []byte(spec.Path), Args: toBytes(spec.Args), Env: toBytes(spec.Env),
		Dir: []byte(spec.Dir), Kill: toBytes(spec.Kill), Deadline: p.deadline, Launcher: spec.Launcher,
	})
	go p.watch()
	return p, nil
}

// ErrKilled is Check's error if the guardian was killed, for example by the kernel for want of memory.
var ErrKilled = errors.New("guardian: it was killed")

// Check starts a guardian without an agent, and returns why that fails.
func Check() error {
	// A guardian starts no agent after the end of the lease.
	p, err := Start(Spec{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Deadline: time.Now()})
	if err != nil {
		return err
	}
	switch status := p.Wait(); {
	case status.StartError != nil:
		return fmt.Errorf("guardian: %w", status.StartError)
	case !status.LeaseExpired:
		return ErrKilled
	}
	return nil
}

// executable returns the path of this binary. On Linux /proc/self/exe stays right even if an
// upgrade has replaced the file.
func executable() (string, error) {
	if runtime.GOOS == "linux" {
		if _, err := os.Stat("/proc/self/exe"); err == nil {
			return "/proc/self/exe", nil
		}
	}
	return os.Executable()
}

// watch waits for the guardian's end. A report counts only if the guardian then exits by itself:
// any process of the user can kill a guardian, and one that is quick enough at its start can send
// reports in its name.
func (p *Process) watch() {
	defer close(p.done)
	received := make(chan reports, 1)
	go func() { received <- listen(p.channel) }()
	_ = p.cmd.Wait()
	guardians.remove(p.cmd.Process.Pid)
	_ = p.channel.SetReadDeadline(time.Now().Add(lastWords))
	r := <-received
	p.mu.Lock()
	_ = p.channel.Close()
	if p.force != nil {
		p.force.Stop()
	}
	p.mu.Unlock()

	switch code := p.cmd.ProcessState.ExitCode(); {
	case r.failed.Error != "" && (code == exitNotStarted || code == exitDone && p.launcher):
		p.status = Status{StartError: errors.New(r.failed.Error), OwnFault: r.failed.Own}
	case code == exitDone && r.last.Done:
		p.status = Status{
			Code: r.last.Code, Signal: syscall.Signal(r.last.Signal),
			LeaseExpired: r.last.Lease, Left: r.last.Left,
		}
	default:
		p.status = Status{GuardianDied: true, Left: killOrphans(p.cmd.Process.Pid, r.pid) + runKill(p.kill, p.env, nil)}
		if code == exitGoCrashed && r == (reports{}) {
			p.status = Status{StartError: fmt.Errorf("guardian: it ended with exit status %d: are there too many processes, or too little memory?", code)}
		}
	}
	lookForStrays()
}

// reports are a guardian's reports.
type reports struct {
	pid    int // of the agent's main process
	failed report
	last   report
}

// listen reads reports until the end of the channel, an invalid report, or the channel's
// deadline.
func listen(channel *os.File) (r reports) {
	for lines := bufio.NewScanner(channel); lines.Scan(); {
		var one report
		if json.Unmarshal(lines.Bytes(), &one) != nil {
			break
		}
		switch {
		case one.Pid != 0:
			r.pid = one.Pid
		case one.Error != "":
			r.failed = one
		default:
			r.last = one
		}
	}
	return r
}

// Renew extends the lease to deadline in the guardian. An earlier deadline changes nothing.
func (p *Process) Renew(deadline time.Time) {
	at := onSharedClock(deadline)
	p.mu.Lock()
	defer p.mu.Unlock()
	if at > p.deadline {
		p.deadline = at
		p.sendLocked(order{Deadline: at})
	}
}

// Deadline is the end of the lease as the guardian last received it.
func (p *Process) Deadline() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Now().Add(time.Duration(p.deadline - sharedClock()))
}

// Unlease removes the lease in the guardian until the next Renew.
func (p *Process) Unlease() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.deadline != 0 {
		p.deadline = 0
		p.sendLocked(order{Unlease: true})
	}
}

// Interrupt sends SIGINT to the agent's process group, and SIGKILL after the grace. Further calls
// change nothing.
func (p *Process) Interrupt(grace time.Duration) {
	grace = max(grace, 0)
	ms := int(grace.Milliseconds())
	p.send(order{Interrupt: &ms})
	p.forceAfter(grace)
}

// Kill sends SIGKILL to everything that the agent started.
func (p *Process) Kill() {
	p.send(order{Kill: true})
	p.forceAfter(0)
}

// forceAfter kills the guardian if it still runs overdueAfter after the grace, because an agent can
// keep its guardian from working. The earliest deadline counts.
func (p *Process) forceAfter(grace time.Duration) {
	after := grace + overdueAfter
	p.mu.Lock()
	defer p.mu.Unlock()
	at := time.Now().Add(after)
	if p.force == nil {
		p.force = time.AfterFunc(after, func() { _ = p.cmd.Process.Kill() })
	} else if at.Before(p.forceAt) && p.force.Stop() {
		p.force.Reset(after)
	} else {
		return
	}
	p.forceAt = at
}

// Done is closed after the end of the agent, everything that it started, and its guardian.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait waits for Done and returns how the agent ended.
func (p *Process) Wait() Status {
	<-p.done
	return p.status
}

func (p *Process) send(v any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sendLocked(v)
}

// sendLocked ignores errors: a guardian that cannot be written to is dead, which watch notices.
func (p *Process) sendLocked(v any) {
	line, err := json.Marshal(v)
	if err != nil {
		panic(err) // plain structs of strings and numbers
	}
	// The guardian may have been stopped.
	_ = p.cmd.Process.Signal(syscall.SIGCONT)
	_ = p.channel.SetWriteDeadline(time.Now().Add(10 * time.Second))
	_, _ = p.channel.Write(append(line, '\n'))
}
