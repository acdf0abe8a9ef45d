// Package lab is what the benchmarks share: a redis-server of their own, clients that count, a
// load, a child process to kill, and the table of figures.
package lab

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"time"

	"github.com/redis/go-redis/v9"
)

// poolSize is how many connections a client may have: more than the 50 slots of the comparisons
// with asynq, which needs one for each slot.
const poolSize = 100

// Server is a redis-server of the benchmark's own, without persistence, otherwise with the settings
// of docker-compose.yml.
type Server struct {
	addr string
	dir  string
	cmd  *exec.Cmd
}

// StartServer starts a redis-server on a free port. It ends with ctx.
func StartServer(ctx context.Context) (*Server, error) {
	dir, err := os.MkdirTemp("", "turnstile-bench-")
	if err != nil {
		return nil, err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := l.Addr().String()
	_, port, _ := net.SplitHostPort(addr)
	_ = l.Close()
	s := &Server{addr: addr, dir: dir}
	s.cmd = exec.CommandContext(ctx, "redis-server", "--port", port, "--bind", "127.0.0.1", "--dir", dir,
		"--save", "", "--appendonly", "no", "--maxmemory-policy", "noeviction", "--stream-node-max-bytes", "1024", "--loglevel", "warning")
	if err := s.cmd.Start(); err != nil {
		_ = os.RemoveAll(dir)
		return nil, fmt.Errorf("start redis-server: %w", err)
	}
	rdb := s.Client()
	defer rdb.Close()
	for deadline := time.Now().Add(10 * time.Second); ; {
		if err = rdb.Ping(ctx).Err(); err == nil {
			return s, nil
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			s.Stop()
			return nil, fmt.Errorf("redis-server does not answer: %w", err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// Addr is the server's HOST:PORT.
func (s *Server) Addr() string { return s.addr }

// Client opens database 0. The caller closes it.
func (s *Server) Client() *redis.Client { return Open(s.addr, 0, "") }

// Open makes the benchmarks' client for a database. Connections counts the connections by name.
func Open(addr string, db int, name string) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: addr, DB: db, ClientName: name, PoolSize: poolSize})
}

// Clear empties the server.
func (s *Server) Clear(ctx context.Context) error {
	rdb := s.Client()
	defer rdb.Close()
	return rdb.FlushAll(ctx).Err()
}

// Stop kills the server.
func (s *Server) Stop() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
	_ = os.RemoveAll(s.dir)
}
