package devredis

import (
	"context"
	"os"
	"sync"
	"syscall"
	"time"
)

const (
	startTimeout = 10 * time.Second
	stopTimeout  = 5 * time.Second
)

// child is a Process that a goroutine waits for.
type child struct {
	server  *Process
	once    sync.Once
	stopped chan struct{} // closed when it ends
}

func startProcess(ctx context.Context, port int) (backend, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	dir, err := os.MkdirTemp("", "turnstile-redis-")
	if err != nil {
		return nil, err
	}
	_ = os.Chmod(dir, 0o700) //nolint:gosec // a directory, whatever the umask
	args := append(Args(dir, port), "--save", "", "--appendonly", "no", "--maxmemory-policy", "noeviction")
	server, err := Launch(ctx, dir, port, nil, args)
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	p := &child{server: server, stopped: make(chan struct{})}
	go func() {
		defer close(p.stopped)
		server.Wait()
	}()
	return p, nil
}

// Done implements backend.
func (p *child) Done() <-chan struct{} { return p.stopped }

func (p *child) stop() {
	p.once.Do(func() {
		_ = p.server.Signal(syscall.SIGTERM)
		select {
		case <-p.stopped:
		case <-time.After(stopTimeout):
			_ = p.server.Signal(syscall.SIGKILL)
		}
		<-p.stopped
		_ = os.RemoveAll(p.server.dir)
	})
	<-p.stopped
}
