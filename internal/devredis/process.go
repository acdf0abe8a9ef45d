package devredis

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/redisconn"
)

const (
	startTimeout = 10 * time.Second
	stopTimeout  = 5 * time.Second
	pollInterval = 5 * time.Millisecond
	logName      = "redis.log"
)

// errUnfit: the redis-server on PATH runs but cannot be used.
var errUnfit = errors.New("unfit redis-server")

// watchdogScript kills the server and removes its directory when its stdin
// closes, which is when the worker has died. It needs no cooperation of the
// worker, so it also works after kill -9, and on every Unix.
const watchdogScript = `read -r _; kill -9 "$1" 2>/dev/null
for try in 1 2 3 4 5; do rm -rf "$2" && exit; sleep 1; done`

// process is a redis-server of our own. It and its watchdog have process groups
// of their own: Ctrl-C on the terminal is for the worker, which still needs its
// Redis to drain.
type process struct {
	dir      string
	server   *exec.Cmd
	watchdog *exec.Cmd
	pipe     *os.File // its closing wakes the watchdog
	once     sync.Once
	stopped  chan struct{} // closed when it has ended
}

func startProcess(ctx context.Context, port int) (_ backend, err error) {
	life := context.WithoutCancel(ctx) // stop ends the processes, not ctx
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	dir, err := os.MkdirTemp("", "turnstile-redis-")
	if err != nil {
		return nil, err
	}
	p := &process{dir: dir, stopped: make(chan struct{})}
	p.server = ownGroup(exec.CommandContext(life, string(KindServer),
		"--port", strconv.Itoa(port), "--bind", host, "--dir", dir, "--logfile", filepath.Join(dir, logName),
		"--daemonize", "no", "--save", "", "--appendonly", "no", "--maxmemory-policy", "noeviction"))
	if err := p.server.Start(); err != nil {
		_ = os.RemoveAll(dir)
		return nil, fmt.Errorf("%w: %w", errUnfit, err)
	}
	if err := p.watch(life); err != nil {
		_ = p.server.Process.Kill()
		_ = p.server.Wait()
		_ = os.RemoveAll(dir)
		return nil, err
	}
	go p.reap()
	if err := p.serves(ctx, port); err != nil {
		if log := p.log(); strings.Contains(log, "Address already in use") {
			err = errPortTaken
		} else if log != "" {
			err = fmt.Errorf("%w; its log ends: %s", err, log)
		}
		p.stop()
		return nil, err
	}
	return p, nil
}

func ownGroup(cmd *exec.Cmd) *exec.Cmd {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

func (p *process) watch(ctx context.Context) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	p.watchdog = ownGroup(exec.CommandContext(ctx, "/bin/sh", "-c", watchdogScript, "sh", strconv.Itoa(p.server.Process.Pid), p.dir))
	p.watchdog.Stdin = r
	if err := p.watchdog.Start(); err != nil {
		_ = w.Close()
		return fmt.Errorf("watch over the redis-server: %w", err)
	}
	p.pipe = w
	return nil
}

// reap waits for the server's end. The watchdog goes first, lest it kill
// another process that got the same number.
func (p *process) reap() {
	defer close(p.stopped)
	_ = p.server.Wait()
	_ = p.watchdog.Process.Kill()
	_ = p.watchdog.Wait()
	_ = p.pipe.Close()
}

// serves returns when the server answers, and is ours and not one that took the
// port in the same instant.
func (p *process) serves(ctx context.Context, port int) error {
	client, err := redisconn.Open("redis://"+address(port), redisconn.WithPoolSize(1), func(o *redis.UniversalOptions) { o.MaxRetries = -1 })
	if err != nil {
		return err
	}
	defer client.Close()
	another := false // had the port, and is gone
	for {
		if answers(ctx, port) {
			info, err := client.Info(ctx, "server").Result()
			if err == nil && strings.Contains(info, fmt.Sprintf("process_id:%d\r\n", p.server.Process.Pid)) {
				break
			}
			if err == nil {
				return errPortTaken
			}
			another = true
		}
		select {
		case <-p.stopped:
			if another {
				return errPortTaken
			}
			return fmt.Errorf("%w: it ended at once", errUnfit)
		case <-ctx.Done():
			return fmt.Errorf("redis-server does not answer: %w", ctx.Err())
		case <-time.After(pollInterval):
		}
	}
	if _, err := redisconn.Check(ctx, client); err != nil {
		return fmt.Errorf("%w: %w", errUnfit, err)
	}
	return nil
}

// log is the end of the server's log, on one line.
func (p *process) log() string {
	text, _ := os.ReadFile(filepath.Join(p.dir, logName))
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-3):], "; ")
}

// Done implements backend.
func (p *process) Done() <-chan struct{} { return p.stopped }

func (p *process) stop() {
	p.once.Do(func() {
		_ = p.server.Process.Signal(syscall.SIGTERM)
		select {
		case <-p.stopped:
		case <-time.After(stopTimeout):
			_ = p.server.Process.Kill()
		}
		<-p.stopped
		_ = os.RemoveAll(p.dir)
	})
	<-p.stopped
}
