package world

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"turnstile/test/history"
)

// Process is a program that is restarted whenever it ends, as by a supervisor. It dies with the
// harness. All its lives write to one log file.
type Process struct {
	Name string

	world *World
	argv  []string
	env   []string
	pause func() time.Duration // before a restart

	mu    sync.Mutex
	cmd   *exec.Cmd // of the present life
	ended chan struct{}
	down  bool // it is not restarted
	lives int
}

func (w *World) process(name string, env []string, argv ...string) *Process {
	p := &Process{Name: name, world: w, argv: argv, env: env, pause: func() time.Duration {
		return time.Duration(50+rand.IntN(400)) * time.Millisecond
	}}
	w.processes = append(w.processes, p)
	return p
}

// start begins a life. The caller has the lock.
func (p *Process) start() error {
	log, err := os.OpenFile(filepath.Join(p.world.Dir, "logs", p.Name+".log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	p.lives++
	fmt.Fprintf(log, "-- life %d, %s\n", p.lives, time.Now().Format(time.RFC3339Nano))
	p.cmd = exec.CommandContext(context.Background(), p.argv[0], p.argv[1:]...) // it ends with kill
	p.cmd.Env = slices.Concat([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + p.world.Dir}, p.env)
	p.cmd.Dir = p.world.Dir
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", p.Name, err)
	}
	p.ended = make(chan struct{})
	go p.supervise(p.cmd, p.ended)
	return nil
}

// supervise waits for a life's end and begins the next.
func (p *Process) supervise(cmd *exec.Cmd, ended chan struct{}) {
	err := cmd.Wait()
	close(ended)
	if code := cmd.ProcessState.ExitCode(); code == 2 {
		// A panic, or invalid settings: neither is a fault of the schedule.
		p.world.log.Add(history.Record{Kind: history.Left, Name: "exit", Target: p.Name, Error: fmt.Sprint(err), Code: code})
	}
	time.Sleep(p.pause())
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.down && p.cmd == cmd {
		if err := p.start(); err != nil {
			p.world.log.Add(history.Record{Kind: history.Left, Name: "start", Target: p.Name, Error: err.Error()})
		}
	}
}

// Start begins the first life, or the next after Down.
func (p *Process) Start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = false
	return p.start()
}

// Signal sends the present process a signal. It may be dead already.
func (p *Process) Signal(sig syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.cmd.Process.Signal(sig)
}

// PID is the present life's.
func (p *Process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cmd.Process.Pid
}

// Down ends the process for good, with a signal, and kills it if it takes longer than patience.
func (p *Process) Down(sig syscall.Signal, patience time.Duration) (killed bool) {
	p.mu.Lock()
	p.down = true
	cmd, ended := p.cmd, p.ended
	p.mu.Unlock()
	_ = cmd.Process.Signal(sig)
	select {
	case <-ended:
		return false
	case <-time.After(patience):
	}
	_ = cmd.Process.Kill()
	<-ended
	return true
}
