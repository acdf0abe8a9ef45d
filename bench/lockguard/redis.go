package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"time"

	"github.com/redis/go-redis/v9"
)

// server is a redis-server of the benchmark's own, without persistence.
type server struct {
	cmd  *exec.Cmd
	addr string
	dir  string
}

func startServer(ctx context.Context) (*server, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := listener.Addr().(*net.TCPAddr)
	if err := listener.Close(); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "turnstile-bench-")
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "redis-server", "--bind", "127.0.0.1", "--port", fmt.Sprint(addr.Port),
		"--save", "", "--appendonly", "no", "--dir", dir, "--logfile", "log")
	if err := cmd.Start(); err != nil {
		_ = os.RemoveAll(dir)
		return nil, fmt.Errorf("start redis-server: %w", err)
	}
	s := &server{cmd: cmd, addr: addr.String(), dir: dir}
	client := s.client()
	defer func() { _ = client.Close() }()
	for range 100 {
		if err = client.Ping(ctx).Err(); err == nil {
			return s, nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	s.stop()
	return nil, fmt.Errorf("redis-server does not answer: %w", err)
}

func (s *server) client() *redis.Client {
	return redis.NewClient(&redis.Options{Addr: s.addr, PoolSize: 32})
}

func (s *server) stop() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
	_ = os.RemoveAll(s.dir)
}
