package redistest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/redis/devredis"
	"turnstile/test/clock"
)

const (
	startTimeout = 20 * time.Second
	stopTimeout  = 10 * time.Second
)

// Server is a redis-server that belongs to one test. It ends with the test. Its methods fail the
// test when they fail, so call them from the test's goroutine.
type Server struct {
	t       testing.TB
	dir     string
	port    int
	login   *url.Userinfo // of Client and URL; nil: the default user without a password
	args    []string
	env     []string // variables of the server alone
	process *devredis.Process

	once   sync.Once
	client *redis.Client
}

// StartServer starts a private redis-server on a free loopback port, in a new directory, without
// persistence. args are arguments of redis-server and override the defaults: StartServer(t,
// "--appendonly", "yes"). Without a redis-server the test is skipped, and under CI it fails.
func StartServer(t testing.TB, args ...string) *Server {
	t.Helper()
	var login *url.Userinfo
	if password := optionOf(args, "--requirepass"); password != "" {
		login = url.UserPassword("", password)
	}
	return StartServerAs(t, login, args...)
}

// StartServerAs is StartServer for a server whose default user is off: Client and URL log in as another one,
// of whom args tell the server, for example with --aclfile.
func StartServerAs(t testing.TB, login *url.Userinfo, args ...string) *Server {
	t.Helper()
	needBinary(t)
	s, err := newServer(login, args)
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	s.t = t
	t.Cleanup(s.remove)
	return s
}

// WithClock starts the server again with a wall clock that can be moved. Without a C compiler the test is
// skipped, and under CI it fails. Linux.
func (s *Server) WithClock() clock.Clock {
	t := s.t
	t.Helper()
	_, err := exec.LookPath(clock.Compiler)
	skipUnless(t, err == nil && runtime.GOOS == "linux", "redistest: moves Redis' clock, and needs a C compiler and Linux for that")
	dir := t.TempDir()
	c, err := clock.New(filepath.Join(dir, "clock"))
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	library, err := clock.Build(t.Context(), dir)
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	s.Stop()
	s.env = []string{"LD_PRELOAD=" + library, c.Environ()}
	s.Start()
	return c
}

// newServer starts a server that belongs to no test yet.
func newServer(login *url.Userinfo, args []string) (*Server, error) {
	return startAnew(login, args, func(string) error { return nil })
}

// startAnew starts a server in a new directory, which prepare fills before each try. If another
// process takes the port at the same moment, it tries the next.
func startAnew(login *url.Userinfo, args []string, prepare func(dir string) error) (*Server, error) {
	dir, err := os.MkdirTemp("", "turnstile-redis-")
	if err != nil {
		return nil, err
	}
	for range 5 {
		s := &Server{dir: dir, args: args, login: login}
		if err = prepare(dir); err != nil {
			break
		}
		if s.port, err = freePort(); err != nil {
			break
		}
		if err = s.launch(); err == nil {
			return s, nil
		}
		if !errors.Is(err, devredis.ErrPortTaken) {
			break
		}
	}
	_ = os.RemoveAll(dir)
	return nil, err
}

func (s *Server) launch() (err error) {
	args := devredis.Args(s.dir, s.port)
	if len(s.args) > 0 && s.args[0] == sentinelConfig {
		args = slices.Concat([]string{filepath.Join(s.dir, sentinelConfig), "--sentinel"}, s.args[1:], args)
	} else {
		args = slices.Concat(args, []string{"--save", "", "--appendonly", "no", "--enable-debug-command", "yes"}, s.args)
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	s.process, err = devredis.Launch(ctx, s.dir, s.port, s.login, args, s.env...)
	return err
}

// Addr is the server's host:port.
func (s *Server) Addr() string { return loopback(s.port) }

// URL is the redis:// URL of the server's database 0, with user and password.
func (s *Server) URL() string {
	u := url.URL{Scheme: "redis", Host: s.Addr(), Path: "/0", User: s.login}
	return u.String()
}

// Dir is the server's directory, with its log and its files.
func (s *Server) Dir() string { return s.dir }

// Client is a client of database 0, the same at every call. It is closed when the test ends.
func (s *Server) Client() *redis.Client {
	s.once.Do(func() {
		password, _ := s.login.Password()
		s.client = redis.NewClient(&redis.Options{Addr: s.Addr(), Username: s.login.Username(), Password: password})
	})
	return s.client
}

// Stop ends the server with SIGTERM, as its supervisor would: it saves as its settings require.
// Stop waits for the server's end.
func (s *Server) Stop() { s.process.Stop(stopTimeout) }

// Kill ends the server with SIGKILL and waits for its end.
func (s *Server) Kill() { s.process.Kill() }

// Start starts the server again after Stop or Kill, on the same port and in the same directory, and
// returns when it serves.
func (s *Server) Start() {
	s.t.Helper()
	if !s.process.Ended() {
		s.t.Fatalf("redistest: the server at %s is running", s.Addr())
	}
	// After a crash the watchdog of the dead server still runs.
	s.process.Kill()
	if err := s.launch(); err != nil {
		s.t.Fatalf("redistest: restart at %s: %v", s.Addr(), err)
	}
}

// Pause suspends the server with SIGSTOP: connections stay open, and there are no replies.
func (s *Server) Pause() {
	s.t.Helper()
	s.signal(syscall.SIGSTOP)
}

// Resume continues a suspended server.
func (s *Server) Resume() {
	s.t.Helper()
	s.signal(syscall.SIGCONT)
}

func (s *Server) signal(sig syscall.Signal) {
	s.t.Helper()
	if err := s.process.Signal(sig); err != nil {
		s.t.Fatalf("redistest: signal %v to the server at %s: %v", sig, s.Addr(), err)
	}
}

func (s *Server) remove() {
	if s.client != nil {
		_ = s.client.Close()
	}
	s.process.Kill()
	_ = os.RemoveAll(s.dir)
}

// optionOf finds the value of a redis-server option in args.
func optionOf(args []string, name string) (value string) {
	for i := 0; i+1 < len(args); i++ {
		if args[i] == name {
			value = args[i+1]
		}
	}
	return value
}

// RefuseWrites makes the server refuse every write, and PING, as with a full disk: it cannot save its file.
func (s *Server) RefuseWrites() {
	s.t.Helper()
	ctx, client := s.t.Context(), s.Client()
	if err := errors.Join(client.ConfigSet(ctx, "save", "3600 1").Err(), os.RemoveAll(s.dir), client.BgSave(ctx).Err()); err != nil {
		s.t.Fatalf("redistest: make the server at %s refuse writes: %v", s.Addr(), err)
	}
	await(ctx, s.t, "a save to fail", func() error {
		if err := client.Ping(ctx).Err(); !redis.HasErrorPrefix(err, "MISCONF") {
			return fmt.Errorf("PING returned %w", cmp.Or(err, errors.New("PONG")))
		}
		return nil
	})
}
