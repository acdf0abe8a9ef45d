package devredis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	logName      = "redis.log"
	logLines     = 5 // of the log's end, in an error
	pollInterval = 2 * time.Millisecond
)

// ErrPortTaken is returned when another process took the port first.
var ErrPortTaken = errors.New("the port is taken")

// ErrUnfit is returned when the redis-server on PATH cannot be started or used, or ends at once.
var ErrUnfit = errors.New("unfit redis-server")

// watchdogScript kills the server and removes its directory when its stdin closes, which happens
// when this process dies. It works after kill -9, too, and on every Unix.
const watchdogScript = `read -r _; kill -9 "$1" 2>/dev/null
for try in 1 2 3 4 5; do rm -rf "$2" && exit; sleep 1; done`

// Process is a redis-server with its watchdog. It dies with this process, however this process dies, and
// ignores Ctrl-C on its terminal. It starts no goroutine: its owner either calls Wait in one or calls
// Ended regularly. Its methods are not safe for concurrent use, except Signal during Wait.
type Process struct {
	server   *exec.Cmd
	watchdog *exec.Cmd
	pipe     *os.File // its closing wakes the watchdog
	dir      string
	pid      int
	ended    bool
}

// Args returns the arguments that every server needs: it listens on loopback and has its files
// and its log in dir.
func Args(dir string, port int) []string {
	return []string{
		"--port", strconv.Itoa(port), "--bind", host, "--dir", dir,
		"--logfile", filepath.Join(dir, logName), "--daemonize", "no",
	}
}

// Launch starts a redis-server with args, which include Args, and returns when it serves at port;
// ctx bounds only that. login is a user of the server; nil: its default user without a password. The owner
// removes dir after the server's end. If this process dies first, the watchdog removes it. Its environment is
// this process's, with the variables in env.
func Launch(ctx context.Context, dir string, port int, login *url.Userinfo, args []string, env ...string) (*Process, error) {
	s := &Process{dir: dir}
	// It ends by Signal, or with this process.
	s.server = ownGroup(exec.CommandContext(context.WithoutCancel(ctx), string(KindServer), args...))
	s.server.Dir, s.server.Env = dir, append(os.Environ(), env...)
	if err := s.server.Start(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnfit, err)
	}
	s.pid = s.server.Process.Pid
	err := s.watch(context.WithoutCancel(ctx))
	if err == nil {
		err = s.serves(ctx, port, login)
	}
	if err == nil {
		return s, nil
	}
	log := s.log()
	s.Kill()
	switch {
	case strings.Contains(log, "Address already in use"):
		return nil, ErrPortTaken
	case log != "":
		return nil, fmt.Errorf("%w; its log ends: %s", err, log)
	}
	return nil, err
}

// ownGroup puts the command into a new process group, so that Ctrl-C on the terminal does not reach
// it.
func ownGroup(cmd *exec.Cmd) *exec.Cmd {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

func (s *Process) watch(ctx context.Context) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	watchdog := ownGroup(exec.CommandContext(ctx, "/bin/sh", "-c", watchdogScript, "sh", strconv.Itoa(s.pid), s.dir))
	watchdog.Stdin = r
	if err := watchdog.Start(); err != nil {
		_ = w.Close()
		return fmt.Errorf("watch over the redis-server: %w", err)
	}
	s.watchdog, s.pipe = watchdog, w
	return nil
}

// serves returns when our server accepts commands at port. Another process may have taken the
// port in the same instant; that is ErrPortTaken.
func (s *Process) serves(ctx context.Context, port int, login *url.Userinfo) error {
	addr := net.JoinHostPort(host, strconv.Itoa(port))
	password, _ := login.Password()
	client := redis.NewClient(&redis.Options{Addr: addr, Username: login.Username(), Password: password, MaxRetries: -1, PoolSize: 1, DialerRetries: 1, ReadTimeout: time.Second})
	defer client.Close()
	another := false // another server has the port
	for {
		if listens(ctx, addr) { // a plain dial first: go-redis logs each refused one
			info, err := client.Info(ctx, "server").Result()
			if err == nil && !strings.Contains(info, fmt.Sprintf("process_id:%d\r\n", s.pid)) {
				return ErrPortTaken
			}
			if err == nil && client.Ping(ctx).Err() == nil {
				return nil
			}
			another = err != nil
		}
		if s.Ended() {
			if another {
				return ErrPortTaken
			}
			return fmt.Errorf("%w: it ended at once", ErrUnfit)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("redis-server does not respond: %w", ctx.Err())
		case <-time.After(pollInterval):
		}
	}
}

func listens(ctx context.Context, addr string) bool {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	return err == nil && conn.Close() == nil
}

// log returns the end of the server's log, on one line.
func (s *Process) log() string {
	text, _ := os.ReadFile(filepath.Join(s.dir, logName))
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-logLines):], "; ")
}

// PID returns the server's process ID.
func (s *Process) PID() int { return s.pid }

// Signal sends the server a signal; it fails after the server's end.
func (s *Process) Signal(sig syscall.Signal) error { return s.server.Process.Signal(sig) }

// Wait waits for the server's end. It ends the watchdog too, which would otherwise kill a later
// process with the same PID.
func (s *Process) Wait() {
	if !s.ended {
		_ = s.server.Wait()
		s.ended = true
	}
	s.unwatch()
}

// Ended reports whether the server is gone, without waiting.
func (s *Process) Ended() bool {
	for !s.ended {
		var status syscall.WaitStatus
		got, err := syscall.Wait4(s.pid, &status, syscall.WNOHANG, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		// ECHILD: another part of this process has reaped it.
		if got != s.pid && err == nil {
			break
		}
		s.ended = true
		_ = s.server.Process.Release()
	}
	return s.ended
}

// Stop sends SIGTERM, kills the server if it still runs after timeout, and waits for its end.
func (s *Process) Stop(timeout time.Duration) {
	if !s.Ended() && s.Signal(syscall.SIGTERM) == nil {
		for end := time.Now().Add(timeout); !s.Ended() && time.Now().Before(end); {
			time.Sleep(pollInterval)
		}
	}
	s.Kill()
}

// Kill kills the server and waits for its end.
func (s *Process) Kill() {
	if !s.Ended() {
		_ = s.Signal(syscall.SIGKILL)
	}
	s.Wait()
}

func (s *Process) unwatch() {
	if s.watchdog == nil {
		return
	}
	// The watchdog goes first, because the pipe's end would make it kill.
	_ = s.watchdog.Process.Kill()
	_ = s.watchdog.Wait()
	_ = s.pipe.Close()
	s.watchdog = nil
}
