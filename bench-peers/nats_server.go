package main

import (
	"context"
	"errors"
	"os"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"

	"turnstile/bench/internal/lab"
)

// serveNATS runs the NATS server in this process. If durable, it syncs its files with each write before
// it acknowledges one. Otherwise streams are in memory.
func serveNATS(_ context.Context, j job) (*server, error) {
	dir, err := os.MkdirTemp("", "turnstile-peers-nats-")
	if err != nil {
		return nil, err
	}
	s, err := natsserver.NewServer(&natsserver.Options{
		Host: "127.0.0.1", Port: natsserver.RANDOM_PORT, NoLog: true, NoSigs: true,
		JetStream: true, StoreDir: dir, SyncAlways: j.Durable,
	})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	s.Start()
	stop := func() {
		s.Shutdown()
		_ = os.RemoveAll(dir)
	}
	if !s.ReadyForConnections(startTimeout) {
		stop()
		return nil, errors.New("it does not accept connections")
	}
	return &server{
		address:   s.ClientURL(),
		processor: func(context.Context) (time.Duration, error) { return lab.ProcessorTime() },
		stop:      stop,
	}, nil
}
