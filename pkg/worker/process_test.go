package worker_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	osexec "os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// process is a worker process of this binary.
type process struct {
	t    *testing.T
	id   string
	cmd  *osexec.Cmd
	pipe io.Closer // its stdin: the process ends when it is closed
	log  lockedBuffer
	once sync.Once

	watch sync.Once
	over  chan struct{} // closed at the end of the process, after gone was called
}

// lockedBuffer collects a process's stderr while the test may read it.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// heir is the job of a worker that takes over from one that dies or stops. It keeps its lease on a
// slow machine; the other one's must end.
var heir = job{TTL: time.Minute}

// process starts a worker process and waits until it takes work.
func (r *rig) process(name string, j job) *process {
	r.Helper()
	expect.NotQuick(r)
	redistest.Real(r)
	j.URL, j.ID, j.Verbose = r.url, r.key+"/"+name, testing.Verbose()
	text, err := json.Marshal(j)
	expect.OK(r, err)
	self, err := os.Executable()
	expect.OK(r, err)
	p := &process{t: r.T, id: j.ID, cmd: osexec.Command(self)}
	p.cmd.Env = append(os.Environ(), childVariable+"="+string(text))
	p.cmd.Stderr = &p.log
	// A separate process group, so that only the test gets Ctrl-C.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.pipe, err = p.cmd.StdinPipe()
	expect.OK(r, err)
	out, err := p.cmd.StdoutPipe()
	expect.OK(r, err)
	expect.OK(r, p.cmd.Start())
	r.Cleanup(func() {
		p.kill()
		if r.Failed() {
			r.Logf("%s said:\n%s", p.id, p.log.String())
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if j.Step > 0 && errors.Is(err, io.EOF) {
		return p // it has already died at its step
	}
	if err != nil || line != "ready\n" {
		r.Fatalf("the worker process said %q, %v", line, err)
	}
	return p
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	expect.OK(p.t, p.cmd.Process.Signal(s))
}

// stop stops the process with SIGSTOP and waits until no thread of it runs any more: kill(2)
// returns before that.
func (p *process) stop() {
	p.t.Helper()
	p.signal(syscall.SIGSTOP)
	var status syscall.WaitStatus
	for {
		_, err := syscall.Wait4(p.cmd.Process.Pid, &status, syscall.WUNTRACED, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		expect.OK(p.t, err)
		if !status.Stopped() {
			p.t.Fatalf("%s ended instead of stopping: %v", p.id, status)
		}
		return
	}
}

// kill is kill -9. It may be called again.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	p.wait()
}

// wait waits for the process's end.
func (p *process) wait() {
	p.once.Do(func() {
		_ = p.cmd.Wait() // the test knows how it ended
		_ = p.pipe.Close()
	})
}

// end drains the process with SIGTERM; it must then exit with 0.
func (p *process) end() {
	p.t.Helper()
	p.signal(syscall.SIGTERM)
	p.ended()
}

func (p *process) ended() {
	p.t.Helper()
	watchdog := time.AfterFunc(patience, func() { _ = p.cmd.Process.Kill() })
	defer watchdog.Stop()
	p.wait()
	if !p.cmd.ProcessState.Success() {
		p.t.Errorf("%s ended with %v", p.id, p.cmd.ProcessState)
	}
}
