package devredis

import (
	"context"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"turnstile/internal/redisconn"
	"turnstile/internal/redisserver"
)

const (
	startTimeout = 10 * time.Second
	stopTimeout  = 5 * time.Second
)

// process is a redis-server of our own.
type process struct {
	dir     string
	server  *redisserver.Server
	once    sync.Once
	stopped chan struct{} // closed when it has ended
}

func startProcess(ctx context.Context, port int) (backend, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	dir, err := os.MkdirTemp("", "turnstile-redis-")
	if err != nil {
		return nil, err
	}
	args := append(redisserver.Args(dir, port), "--save", "", "--appendonly", "no", "--maxmemory-policy", "noeviction")
	server, err := redisserver.Launch(ctx, dir, port, "", args)
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	p := &process{dir: dir, server: server, stopped: make(chan struct{})}
	go func() {
		defer close(p.stopped)
		server.Wait()
	}()
	if err := fit(ctx, port); err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

// fit checks that Turnstile can use the server.
func fit(ctx context.Context, port int) error {
	client, err := redisconn.Open("redis://"+address(port), redisconn.WithPoolSize(1))
	if err != nil {
		return err
	}
	defer client.Close()
	if _, err := redisconn.Check(ctx, client); err != nil {
		return fmt.Errorf("%w: %w", redisserver.ErrUnfit, err)
	}
	return nil
}

// Done implements backend.
func (p *process) Done() <-chan struct{} { return p.stopped }

func (p *process) stop() {
	p.once.Do(func() {
		_ = p.server.Signal(syscall.SIGTERM)
		select {
		case <-p.stopped:
		case <-time.After(stopTimeout):
			_ = p.server.Signal(syscall.SIGKILL)
		}
		<-p.stopped
		_ = os.RemoveAll(p.dir)
	})
	<-p.stopped
}
