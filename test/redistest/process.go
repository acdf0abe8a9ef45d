package redistest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	startTimeout = 20 * time.Second
	stopTimeout  = 10 * time.Second
	pollInterval = 2 * time.Millisecond
)

var errPortTaken = errors.New("another process took the port")

// process is one redis-server, together with a watchdog that kills it and
// removes its directory when this process dies, however it dies.
//
// It is reaped with Wait4 and not with exec.Cmd.Wait, which would need a
// goroutine for the whole life of the server: goleak would report it in every
// package.
type process struct {
	pid      int
	watchdog int
	pipe     *os.File
}

// launch starts redis-server with args and waits until ready says that it
// serves. The directory is removed only if this process dies first.
func launch(dir string, port int, password string, args []string) (*process, error) {
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(binary, args...)
	cmd.Dir = dir
	// Its own process group: Ctrl-C must reach neither it nor the watchdog.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start redis-server: %w", err)
	}
	p := &process{pid: cmd.Process.Pid}
	_ = cmd.Process.Release()
	if err := p.watch(dir); err != nil {
		p.kill()
		return nil, err
	}
	if err := p.waitReady(port, password); err != nil {
		p.kill()
		if tail := logTail(dir); strings.Contains(tail, "Failed listening on port") {
			return nil, errPortTaken
		} else if tail != "" {
			err = fmt.Errorf("%w; its log ends:\n%s", err, tail)
		}
		return nil, err
	}
	return p, nil
}

func (p *process) watch(dir string) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	// The pipe's write end closes with this process; nothing is ever written.
	const script = `read -r _; kill -9 "$1" 2>/dev/null; rm -rf "$2"`
	cmd := exec.Command("/bin/sh", "-c", script, "sh", strconv.Itoa(p.pid), dir)
	cmd.Stdin = r
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		w.Close()
		return fmt.Errorf("start the watchdog: %w", err)
	}
	p.watchdog, p.pipe = cmd.Process.Pid, w
	_ = cmd.Process.Release()
	return nil
}

// waitReady asks until the server at port answers and is the one that was
// started: another process may have taken the port first.
func (p *process) waitReady(port int, password string) error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	client := redis.NewClient(&redis.Options{
		Addr: loopback(port), Password: password, MaxRetries: -1, PoolSize: 1, DialerRetries: 1,
	})
	defer client.Close()
	var last error
	for ctx.Err() == nil {
		if p.exited() {
			return errors.New("redis-server ended at once")
		}
		// A plain dial first: go-redis logs each refused one.
		var conn net.Conn
		if conn, last = net.Dial("tcp", loopback(port)); last != nil {
			time.Sleep(pollInterval)
			continue
		}
		_ = conn.Close()
		var info string
		if info, last = client.Info(ctx, "server").Result(); last == nil {
			if !strings.Contains(info, fmt.Sprintf("process_id:%d\r\n", p.pid)) {
				return errPortTaken
			}
			if last = client.Ping(ctx).Err(); last == nil {
				return nil
			}
		}
		time.Sleep(pollInterval)
	}
	return fmt.Errorf("redis-server is not ready after %s: %w", startTimeout, last)
}

// exited reaps the server if it has ended.
func (p *process) exited() bool {
	if p.pid != 0 && reaped(p.pid) {
		p.pid = 0
	}
	return p.pid == 0
}

func (p *process) signal(sig syscall.Signal) error {
	if p.exited() {
		return os.ErrProcessDone
	}
	return syscall.Kill(p.pid, sig)
}

// stop asks the server to end, and kills it when it does not.
func (p *process) stop() {
	if p.signal(syscall.SIGTERM) == nil {
		for end := time.Now().Add(stopTimeout); !p.exited() && time.Now().Before(end); {
			time.Sleep(pollInterval)
		}
	}
	p.kill()
}

// kill ends the server with SIGKILL and waits for its end.
func (p *process) kill() {
	if p.signal(syscall.SIGKILL) == nil {
		for !p.exited() {
			time.Sleep(pollInterval)
		}
	}
	if p.watchdog != 0 {
		// First the watchdog, then the pipe: it must not see the pipe's end.
		_ = syscall.Kill(p.watchdog, syscall.SIGKILL)
		for !reaped(p.watchdog) {
			time.Sleep(pollInterval)
		}
		p.watchdog = 0
		_ = p.pipe.Close()
	}
}

func reaped(pid int) bool {
	for {
		var status syscall.WaitStatus
		got, err := syscall.Wait4(pid, &status, syscall.WNOHANG, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		// ECHILD: somebody else in this process has reaped it.
		return got == pid || err != nil
	}
}

func logTail(dir string) string {
	text, err := os.ReadFile(filepath.Join(dir, logName))
	if err != nil {
		return ""
	}
	return string(text[max(0, len(text)-2000):])
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// The ports lie below the range that systems hand out for outgoing
// connections, and so do the cluster's bus ports, which are 10,000 higher.
const (
	firstPort = 11000
	lastPort  = 21999
	busOffset = 10000
)

var ports = struct {
	sync.Mutex
	given map[int]bool
}{given: map[int]bool{}}

// freePort answers a port that nobody listens on and that it has not answered
// before; its bus port is free too.
func freePort() (int, error) {
	ports.Lock()
	defer ports.Unlock()
	for range 2000 {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		if ports.given[port] || !bindable(port) || !bindable(port+busOffset) {
			continue
		}
		ports.given[port] = true
		return port, nil
	}
	return 0, errors.New("no free port on 127.0.0.1")
}

func bindable(port int) bool {
	l, err := net.Listen("tcp", loopback(port))
	if err != nil {
		return false
	}
	return l.Close() == nil
}
