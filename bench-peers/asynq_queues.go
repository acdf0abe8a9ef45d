package main

import (
	"context"
	"sync"

	"github.com/hibiken/asynq"
)

// asynqQueues has a queue for each session. asynq bounds concurrency for each server, not for each
// queue, so each server has one slot and a share of the sessions. The sessions must be known when the
// servers start, and a long turn holds up the other sessions of its server.
type asynqQueues struct {
	*asynqClient
	sessions int
}

func openAsynqQueues(_ context.Context, j job) (client, error) {
	return &asynqQueues{newAsynqClient(j), j.Shape.Sessions}, nil
}

func (c *asynqQueues) send(ctx context.Context, session int, text []byte) error {
	_, err := c.sender.EnqueueContext(ctx, asynq.NewTask(taskType, text), asynq.Queue(name(session)))
	return err
}

func (c *asynqQueues) work(_ context.Context, handle func([]byte) error) (func(), error) {
	var servers []*asynq.Server
	stop := func() {
		var all sync.WaitGroup
		for _, s := range servers {
			all.Go(s.Shutdown) // each takes a moment
		}
		all.Wait()
	}
	for slot := range c.slots {
		queues := map[string]int{}
		for session := slot; session < c.sessions; session += c.slots {
			queues[name(session)] = 1
		}
		s := asynq.NewServerFromRedisClient(c.rdb, asynq.Config{Concurrency: 1, Queues: queues, LogLevel: asynq.ErrorLevel})
		if err := s.Start(asynq.HandlerFunc(func(_ context.Context, t *asynq.Task) error { return handle(t.Payload()) })); err != nil {
			stop()
			return nil, err
		}
		servers = append(servers, s)
	}
	return stop, nil
}
