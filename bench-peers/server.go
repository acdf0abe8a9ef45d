package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/signal"
	"time"

	"turnstile/bench/internal/lab"
)

// server stores a peer's messages. Each run has a new one.
type server struct {
	address   string
	processor func(context.Context) (time.Duration, error) // its processor time so far
	stop      func()
}

// startRedis starts a redis-server, which writes nothing to disk, or syncs its file at each command
// before it replies.
func startRedis(ctx context.Context, durable bool) (*server, error) {
	persistence := lab.None
	if durable {
		persistence = lab.Always
	}
	s, err := lab.StartServer(ctx, persistence)
	if err != nil {
		return nil, err
	}
	admin := s.Client()
	return &server{
		address:   s.Addr(),
		processor: func(ctx context.Context) (time.Duration, error) { return lab.RedisProcessor(ctx, admin) },
		stop: func() {
			_ = admin.Close()
			s.Stop()
		},
	}, nil
}

// located is a server's first line to its parent.
type located struct{ Address, Error string }

// used is a server's response to "processor".
type used struct {
	Processor time.Duration
	Error     string
}

// startChild makes a child of this program the server of a peer. It ends with this process, however this
// process ends, and removes its files.
func startChild(ctx context.Context, j job) (*server, error) {
	child, err := lab.Spawn(context.WithoutCancel(ctx), j) // a killed child could not clean up
	if err != nil {
		return nil, err
	}
	var where located
	if err := child.Read(&where); err != nil {
		child.Close()
		return nil, err
	}
	if where.Error != "" {
		child.Close()
		return nil, fmt.Errorf("the server of %s: %s", j.Peer, where.Error)
	}
	return &server{
		address: where.Address,
		processor: func(context.Context) (time.Duration, error) {
			var u used
			err := child.Call("processor", &u)
			if err == nil && u.Error != "" {
				err = fmt.Errorf("processor time of the server of %s: %s", j.Peer, u.Error)
			}
			return u.Processor, err
		},
		stop: child.Close,
	}, nil
}

// beServer is the process of startChild.
func beServer(ctx context.Context, j job, start func(context.Context, job) (*server, error)) error {
	signal.Ignore(os.Interrupt) // Ctrl-C ends the parent, and so this process
	s, err := start(ctx, j)
	if err != nil {
		return lab.Say(located{Error: err.Error()})
	}
	defer s.stop()
	if err := lab.Say(located{Address: s.address}); err != nil {
		return err
	}
	return lab.Obey(func(string) any {
		var u used
		if u.Processor, err = s.processor(ctx); err != nil {
			u.Error = err.Error()
		}
		return u
	})
}

// freePorts finds ports that nothing listens on.
func freePorts(ctx context.Context, n int) (ports []int, err error) {
	for range n {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}
