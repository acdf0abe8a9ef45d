package devredis_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"turnstile/internal/redis/devredis"
	"turnstile/internal/redis/redisconn"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// asWorker makes this test binary a worker that starts a redis-server and waits.
const asWorker = "TURNSTILE_DEVREDIS_TEST_WORKER"

func TestMain(m *testing.M) {
	if os.Getenv(asWorker) != "" {
		worker()
		return
	}
	redisconn.LogTo(slog.New(slog.DiscardHandler))
	goleak.VerifyTestMain(m)
}

func worker() {
	signal.Ignore(syscall.SIGINT)
	s, err := devredis.Start(context.Background(), devredis.Options{Kind: devredis.KindServer})
	if err != nil {
		fmt.Println("error", err)
		return
	}
	p, dir := s.Child()
	fmt.Println(s.Port(), p.PID(), dir)
	select {}
}

func start(t *testing.T, o devredis.Options) (*devredis.Server, *redis.Client) {
	t.Helper()
	s, err := devredis.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	client, err := redisconn.Open(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return s, client.(*redis.Client)
}

func both(t *testing.T, test func(t *testing.T, kind devredis.Kind)) {
	for _, kind := range []devredis.Kind{devredis.KindServer, devredis.KindEmbedded} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			if kind == devredis.KindServer {
				redistest.Real(t)
			}
			test(t, kind)
		})
	}
}

func TestServes(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, kind devredis.Kind) {
		s, client := start(t, devredis.Options{Kind: kind})
		if s.Kind() != kind {
			t.Errorf("kind %s", s.Kind())
		}
		if _, err := redisconn.Check(t.Context(), client); err != nil {
			t.Error(err)
		}
		now, err := client.Time(t.Context()).Result()
		if age := time.Since(now); err != nil || age.Abs() > time.Minute {
			t.Errorf("its clock is off by %v, %v", age, err)
		}
		select {
		case <-s.Done():
			t.Error("it calls itself done")
		default:
		}
		const mine = "turnstile-test:mine" // shows that the port is not another test's server
		if err := client.Set(t.Context(), mine, t.Name(), 0).Err(); err != nil {
			t.Fatal(err)
		}
		s.Stop()
		s.Stop()
		<-s.Done()
		if client.Get(t.Context(), mine).Val() == t.Name() {
			t.Error("after Stop it still answers")
		}
	})
}

func TestKeysAge(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, kind devredis.Kind) {
		_, client := start(t, devredis.Options{Kind: kind})
		ctx := t.Context()
		const ttl = 150 * time.Millisecond
		before := time.Now()
		if err := client.Set(ctx, "short", "v", ttl).Err(); err != nil {
			t.Fatal(err)
		}
		if err := client.Set(ctx, "long", "v", time.Hour).Err(); err != nil {
			t.Fatal(err)
		}
		for {
			n, err := client.Exists(ctx, "short").Result()
			if err != nil {
				t.Fatal(err)
			}
			if n == 0 {
				break
			}
			if time.Since(before) > 10*time.Second {
				t.Fatal("it does not expire")
			}
		}
		if lived := time.Since(before); lived < ttl-2*devredis.Tick {
			t.Errorf("it expired after %v, not after %v", lived, ttl)
		}
		left, err := client.PTTL(ctx, "long").Result()
		if passed := time.Hour - left; err != nil || (passed-time.Since(before)).Abs() > time.Second {
			t.Errorf("the other key aged by %v in %v, %v", passed, time.Since(before), err)
		}
	})
}

func TestTakesTheNextFreePort(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, kind devredis.Kind) {
		taken, err := net.Listen("tcp", devredis.Host+":0")
		if err != nil {
			t.Fatal(err)
		}
		defer taken.Close()
		port := taken.Addr().(*net.TCPAddr).Port
		s, client := start(t, devredis.Options{Kind: kind, Port: port})
		if s.Port() <= port || s.URL() != "redis://127.0.0.1:"+strconv.Itoa(s.Port())+"/0" {
			t.Errorf("port %d, URL %s; %d is taken", s.Port(), s.URL(), port)
		}
		if err := client.Ping(t.Context()).Err(); err != nil {
			t.Error(err)
		}
	})
}

func TestPrefersTheRealServer(t *testing.T) {
	t.Parallel()
	redistest.Real(t)
	if s, _ := start(t, devredis.Options{}); s.Kind() != devredis.KindServer {
		t.Errorf("started %s", s.Kind())
	}
}

// Not parallel: it changes PATH.
func TestFallsBackToTheEmbeddedServer(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	if s, _ := start(t, devredis.Options{}); s.Kind() != devredis.KindEmbedded {
		t.Errorf("without a redis-server: %s", s.Kind())
	}
	if _, err := devredis.Start(t.Context(), devredis.Options{Kind: devredis.KindServer}); !errors.Is(err, exec.ErrNotFound) {
		t.Errorf("asked for a redis-server that is not there: %v", err)
	}
	// A redis-server that does not even start.
	if err := os.WriteFile(filepath.Join(dir, string(devredis.KindServer)), []byte("#!/bin/sh\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if s, _ := start(t, devredis.Options{}); s.Kind() != devredis.KindEmbedded {
		t.Errorf("with a broken redis-server: %s", s.Kind())
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestNoPortLeft(t *testing.T) {
	t.Parallel()
	if _, err := devredis.Start(t.Context(), devredis.Options{Kind: devredis.KindEmbedded, Port: 65536}); !errors.Is(err, devredis.ErrNoPort) {
		t.Errorf("%v, want ErrNoPort", err)
	}
}

func TestServerThatEndsByItself(t *testing.T) {
	t.Parallel()
	redistest.Real(t)
	s, _ := start(t, devredis.Options{Kind: devredis.KindServer})
	// Not SHUTDOWN: the client would repeat it to the server that has the port next.
	child, _ := s.Child()
	if err := child.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-s.Done():
	case <-time.After(expect.Patience):
		t.Error("Done is not closed")
	}
	s.Stop()
}

func TestStopRemovesItsDirectory(t *testing.T) {
	t.Parallel()
	redistest.Real(t)
	s, _ := start(t, devredis.Options{Kind: devredis.KindServer})
	_, dir := s.Child()
	if _, err := os.Stat(dir); err != nil {
		t.Fatal(err)
	}
	s.Stop()
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("after Stop: %v", err)
	}
}

// The server survives a Ctrl-C that is meant for the worker, but not the worker's death.
func TestServerEndsOnlyWithTheWorker(t *testing.T) {
	t.Parallel()
	redistest.Real(t)
	cmd := exec.Command(os.Args[0])
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // as a job of a terminal
	cmd.Env = append(os.Environ(), asWorker+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait()
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	fields := strings.Fields(line)
	if err != nil || len(fields) != 3 {
		t.Fatalf("the worker says %q, %v", line, err)
	}
	dir := fields[2]
	port, err := strconv.Atoi(fields[0])
	if err != nil {
		t.Fatal(err)
	}
	client, err := redisconn.Open("redis://" + devredis.Address(port))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()

	// A terminal does this at Ctrl-C.
	if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(fields[1])
	if err != nil {
		t.Fatal(err)
	}
	if group, err := syscall.Getpgid(pid); err != nil || group == cmd.Process.Pid {
		t.Errorf("the server is in the worker's process group, %v", err)
	}
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Errorf("after Ctrl-C: %v", err)
	}

	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(10 * time.Second)
	for {
		_, err := os.Stat(dir)
		alive := devredis.Accepts(t.Context(), port)
		if os.IsNotExist(err) && !alive {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("10 s after the worker's death: directory %v, server answers: %v", err, alive)
		}
		time.Sleep(5 * time.Millisecond) // the end of another process's child cannot be awaited
	}
}
