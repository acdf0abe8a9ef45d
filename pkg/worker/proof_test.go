package worker_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	osexec "os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/internal/chat/receipt"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/admin"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// proofSessions is how many sessions the proof has, of ten messages each: 200 with
// TURNSTILE_PROOF=true, which `make proof` sets, else few.
func proofSessions(few int) int {
	if expect.Proof() {
		return 200
	}
	return few
}

const proofMessages = 10

// Two workers run, and a third joins later. One of the first two is killed, or stopped past its
// TTL, in the middle. Every message has one reply, in order, and none is lost.
func TestProof200x10(t *testing.T) {
	t.Parallel()
	kill := func(p *process) { p.kill() }
	stop := func(*process) {} // prove has stopped it
	t.Run("kill", func(t *testing.T) {
		t.Parallel()
		prove(newRig(t), proofSessions(40), kill)
	})
	t.Run("stop", func(t *testing.T) {
		t.Parallel()
		prove(newRig(t), proofSessions(40), stop)
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		c := redistest.StartCluster(t)
		prove(rigOn(t, c.URL(), c.Client()), proofSessions(20), kill)
	})
	t.Run("cluster stop", func(t *testing.T) {
		t.Parallel()
		c := redistest.StartCluster(t)
		prove(rigOn(t, c.URL(), c.Client()), proofSessions(20), stop)
	})
}

// prove calls strike with a worker that is stopped in the middle of its turns.
func prove(r *rig, sessions int, strike func(*process)) {
	j := job{TTL: expect.Lease(2 * time.Second), Concurrency: 10}
	one := r.process("one", j)
	held := r.key + "-held" // a turn that the first worker still runs when it is struck, however slow this test is
	r.send(held, turnstile.Message{ID: "0", Text: "linger"})
	expect.Soon(r, "the first worker's turn", func() bool { return r.runs(one) })
	r.process("two", j)
	keys := make([]string, sessions)
	for i := range keys {
		keys[i] = fmt.Sprintf("%s-%d", r.key, i)
	}
	struck := make(chan struct{})
	sent := r.sendAll(keys, struck)
	expect.Soon(r, "a third of the replies", func() bool { return r.countDone(keys) >= sessions*proofMessages/3 })
	expect.Soon(r, "a moment at which the first worker runs turns", func() bool {
		one.stop()
		running := r.runs(one)
		if running {
			running = r.runs(one) // at the first check a finish may have been in flight
		}
		if !running {
			one.signal(syscall.SIGCONT)
		}
		return running
	})
	strike(one)
	close(struck)
	r.process("three", j)
	sent.Wait()
	for _, key := range keys {
		r.outcomeIn(key, fmt.Sprint(proofMessages-1))
	}
	if one.cmd.ProcessState == nil { // stopped, not killed: it continues now, past its TTL
		expect.Soon(r, "the end of its lease", func() bool { return len(r.starts(held)) > 1 })
		one.signal(syscall.SIGCONT)
		expect.Soon(r, "the stopped worker to notice", func() bool { return strings.Contains(one.log.String(), "status=lost") })
	}
	r.outcomeIn(held, "0")
	expect.List(r, held+": transcript", r.transcript(held), "user linger", "tool look (interrupted)", "assistant echo: linger")
	again := len(r.starts(held)) - 1
	for _, key := range keys {
		again += r.proved(key)
	}
	if again == 0 {
		r.Error("no turn was running when the worker was struck: nothing is proved")
	}
	r.Logf("%d sessions x %d messages, %d turns were redelivered", sessions, proofMessages, again)
}

// proofText is a session's message with this number. The one in the middle takes long enough for its
// worker to write of it, and to be struck then.
func proofText(i int) string {
	sleep := "20ms"
	if i == proofMessages/2 {
		sleep = "300ms"
	}
	return fmt.Sprintf("sleep=%s stream=2 message %d", sleep, i)
}

// sendAll sends the messages, in order within each session: the last ones when a worker was struck, so that
// there is work left then.
func (r *rig) sendAll(keys []string, struck <-chan struct{}) *sync.WaitGroup {
	var all sync.WaitGroup
	const senders = 8
	for n := range senders {
		all.Go(func() {
			for i := range proofMessages {
				if i == proofMessages-1 {
					select {
					case <-struck:
					case <-r.ctx.Done():
						return
					}
				}
				for s := n; s < len(keys); s += senders {
					m := turnstile.Message{ID: fmt.Sprint(i), Text: proofText(i)}
					if _, err := receipt.Input(r.ctx, r.client.Session(keys[s]), m); err != nil {
						r.Error(err)
						return
					}
				}
			}
		})
	}
	return &all
}

// runs reports whether a worker runs a turn of which Redis has a write. Without one it may not have
// read the claim's reply, and a worker that is stopped there has no turn to lose. The records are
// read in one pipeline, because the worker is stopped while its leases continue.
func (r *rig) runs(p *process) bool {
	r.Helper()
	busy, err := actors.Collect(r.client.Sessions(r.ctx, admin.Query{State: admin.StateBusy}))
	expect.OK(r, err)
	busy = slices.DeleteFunc(busy, func(s admin.SessionInfo) bool { return s.Worker != p.id || s.Phase != session.PhaseRunning })
	written := make([]*redis.StringCmd, len(busy))
	_, err = r.rdb.Pipelined(r.ctx, func(pipe redis.Pipeliner) error {
		for i, s := range busy {
			written[i] = pipe.HGet(r.ctx, rediskey.For(s.Session).Run(), "seq")
		}
		return nil
	})
	if !errors.Is(err, redis.Nil) {
		expect.OK(r, err)
	}
	for i, s := range busy {
		if strings.HasPrefix(written[i].Val(), fmt.Sprint(s.Fence, " ")) {
			return true
		}
	}
	return false
}

// countDone counts the messages that are done.
func (r *rig) countDone(keys []string) (n int) {
	r.Helper()
	counts := make([]*redis.IntCmd, len(keys))
	_, err := r.rdb.Pipelined(r.ctx, func(p redis.Pipeliner) error {
		for i, key := range keys {
			counts[i] = p.ZCard(r.ctx, rediskey.For(key).Completed())
		}
		return nil
	})
	expect.OK(r, err)
	for _, c := range counts {
		n += int(c.Val())
	}
	return n
}

// proved checks one session, and returns how many turns were redelivered.
func (r *rig) proved(key string) (again int) {
	r.Helper()
	want := make([]string, 0, 2*proofMessages)
	ends := make([]string, 0, proofMessages)
	var ended []string
	for i := range proofMessages {
		text := fmt.Sprintf("message %d", i)
		want = append(want, "user "+proofText(i), "assistant echo: "+text)
		ends = append(ends, fmt.Sprint(i))
		o := r.outcomeIn(key, fmt.Sprint(i))
		if o.Status != session.StatusDone || o.Reply != "echo: "+text {
			r.Errorf("%s: message %d ended as %s with %q (%s)", key, i, o.Status, o.Reply, o.Error)
		}
	}
	for _, e := range r.events(key) {
		if e.Type == session.EventTurnEnded {
			ended = append(ended, e.Messages...)
		}
	}
	expect.List(r, key+": ends", ended, ends...)
	expect.List(r, key+": transcript", r.transcript(key), want...)
	starts := r.starts(key)
	expect.List(r, key+": turns", slices.Compact(slices.Clone(starts)), ends...)
	s, err := r.client.Session(key).Info(r.ctx)
	expect.OK(r, err)
	if s.Phase != session.PhaseIdle || s.Waiting+s.Delayed+s.DeadLetters > 0 || r.rdb.LLen(r.ctx, rediskey.For(key).Active()).Val() > 0 {
		r.Errorf("%s is left as %+v", key, s)
	}
	return len(starts) - len(slices.Compact(starts))
}

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
