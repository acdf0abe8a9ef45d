package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"

	"turnstile/bench/internal/lab"
)

// peer is one way to handle the messages of sessions.
type peer struct {
	name    string
	open    func(context.Context, job) (client, error)    // its client in Go,
	command func(context.Context) *exec.Cmd               // or in JavaScript
	serve   func(context.Context, job) (*server, error)   // its server as a child of this program; nil: Redis
	unfit   func(ctx context.Context, durable bool) error // why it cannot run here
	lacks   string                                        // a chat's further needs
}

func always(context.Context, bool) error { return nil }

// The peers that promise less than the others.
const (
	asynqRaw    = "asynq, one queue"
	asynqLocked = "asynq, lock and retry"
)

// peers are all, Turnstile first.
var peers = []peer{
	{
		name: "Turnstile", open: openTurnstile, unfit: always,
		lacks: "nothing of what is compared here",
	},
	{
		name: asynqRaw, open: openAsynq, unfit: always,
		lacks: "order, one turn at a time, transcript",
	},
	{
		name: "asynq, a queue per session", open: openAsynqQueues, unfit: always,
		lacks: "new sessions while it runs, more than one worker process, order after a retry, transcript",
	},
	{
		name: asynqLocked, open: openAsynqLock, unfit: always,
		lacks: "order, renewal of the lock, a fencing token, transcript",
	},
	{
		name: "BullMQ, 50 queues", command: node("bullmq.mjs"),
		unfit: func(ctx context.Context, _ bool) error { return hasNode(ctx, "bullmq") },
		lacks: "more than one worker process, order after a retry, transcript",
	},
	{
		name: "NATS JetStream", open: openNATS, serve: serveNATS, unfit: always,
		lacks: "a fencing token, kept results, transcript",
	},
	{
		name: "Restate", command: node("restate.mjs"), serve: serveRestate,
		unfit: func(ctx context.Context, durable bool) error {
			if !durable {
				return errors.New("it always writes to disk")
			}
			return hasNode(ctx, "@restatedev/restate-server", "@restatedev/restate-sdk")
		},
		lacks: "messages that interrupt or steer a running turn, transcript",
	},
}

// child is the process of a job.
func child(ctx context.Context, j job) error {
	for _, p := range peers {
		switch {
		case p.name != j.Peer:
		case j.Address == "":
			return beServer(ctx, j, p.serve)
		default:
			return runClient(ctx, j, p.open)
		}
	}
	return fmt.Errorf("unknown peer %q", j.Peer)
}

// start starts the peer's server.
func (p peer) start(ctx context.Context, j job) (*server, error) {
	if p.serve == nil {
		return startRedis(ctx, j.Durable)
	}
	return startChild(ctx, j)
}

// spawn starts the peer's client. After its end, errors has the end of its standard error.
func (p peer) spawn(ctx context.Context, j job) (c *lab.Child, errors fmt.Stringer, err error) {
	if p.command == nil {
		c, err = lab.Spawn(ctx, j)
		return c, &tail{}, err
	}
	cmd, end := p.command(ctx), &tail{}
	cmd.Stderr = end
	c, err = lab.SpawnProgram(cmd, j)
	return c, end, err
}
