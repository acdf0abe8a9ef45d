// Package lab has the shared parts of the benchmarks: a redis-server, clients that count, a load, a
// child process to kill, and the table of figures.
package lab

import (
	"context"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/redis/devredis"
)

// poolSize is how many connections a client may have: more than the 50 slots of the comparisons
// with asynq, which needs one for each slot.
const poolSize = 100

// Persistence is a redis-server's way to write to disk.
type Persistence string

// None writes nothing. Everysec and Always are an append-only file with this appendfsync;
// docker-compose.yml has Always.
const (
	None     Persistence = "none"
	Everysec Persistence = "everysec"
	Always   Persistence = "always"
)

// Server is the benchmark's redis-server, with the settings of docker-compose.yml except for its
// persistence.
type Server struct {
	addr   *net.TCPAddr
	dir    string
	args   []string
	server *devredis.Process
}

// A redis-server may take startTimeout until it serves, and loadTimeout with a file to load.
const (
	startTimeout = 10 * time.Second
	loadTimeout  = 10 * time.Minute
)

// StartServer starts a redis-server on a free port, with further arguments. It ends with this process, or by Stop.
func StartServer(ctx context.Context, p Persistence, further ...string) (*Server, error) {
	dir, err := os.MkdirTemp("", "turnstile-bench-")
	if err != nil {
		return nil, err
	}
	addr, err := freeAddr(ctx)
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	args := append(devredis.Args(dir, addr.Port),
		"--save", "", "--maxmemory-policy", "noeviction", "--loglevel", "warning",
		"--stream-node-max-bytes", "448", "--hash-max-listpack-value", "1024", "--hash-max-listpack-entries", "64")
	args = append(args, further...)
	if p != None {
		args = append(args, "--appendonly", "yes", "--appendfsync", string(p))
	}
	s := &Server{addr: addr, dir: dir, args: args}
	if err := s.launch(ctx, startTimeout); err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	return s, nil
}

func (s *Server) launch(ctx context.Context, timeout time.Duration) (err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if s.server, err = devredis.Launch(ctx, s.dir, s.addr.Port, nil, s.args); err != nil {
		return fmt.Errorf("start redis-server: %w", err)
	}
	return nil
}

// Restart is kill -9, and a start with the file that the server has written.
func (s *Server) Restart(ctx context.Context) error {
	s.server.Kill()
	return s.launch(ctx, loadTimeout)
}

func freeAddr(ctx context.Context) (*net.TCPAddr, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	return l.Addr().(*net.TCPAddr), l.Close()
}

// Addr is the server's HOST:PORT.
func (s *Server) Addr() string { return s.addr.String() }

// Client opens database 0. The caller closes it.
func (s *Server) Client() *redis.Client { return Open(s.Addr(), 0, "") }

// Open makes the benchmarks' client for a database. Connections counts the connections by name.
func Open(addr string, db int, name string) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: addr, DB: db, ClientName: name, PoolSize: poolSize})
}

// Clear empties the server.
func (s *Server) Clear(ctx context.Context) error {
	rdb := s.Client()
	defer rdb.Close()
	return rdb.FlushAllAsync(ctx).Err() // a million sessions take longer than the client waits
}

// Stop kills the server.
func (s *Server) Stop() {
	s.server.Kill()
	_ = os.RemoveAll(s.dir)
}
