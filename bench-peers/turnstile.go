package main

import (
	"context"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/bench/internal/lab"
	"turnstile/pkg/agent"
	"turnstile/pkg/agent/echo"
)

// turnstileClient does everything that a turn does in production: lease, fencing token, transcript,
// events, a kept result.
type turnstileClient struct {
	rdb    redis.UniversalClient
	sender *turnstile.Client
	slots  int
}

func openTurnstile(_ context.Context, j job) (client, error) {
	rdb := lab.Open(j.Address, 0, "")
	return &turnstileClient{rdb, turnstile.NewClient(rdb), j.Slots}, nil
}

func (c *turnstileClient) send(ctx context.Context, to int, text []byte) error {
	_, err := c.sender.Session(name(to)).Send(ctx, turnstile.Message{Text: string(text)})
	return err
}

func (c *turnstileClient) work(ctx context.Context, handle func([]byte) error) (func(), error) {
	w, err := lab.Work(ctx, c.rdb, handling{echo.New(), handle}, lab.Production(c.slots))
	if err != nil {
		return nil, err
	}
	return func() { lab.Stop(ctx, w) }, nil
}

func (c *turnstileClient) close() { _ = c.rdb.Close() }

// handling is the echo agent, which handles each message first.
type handling struct {
	*echo.Agent
	handle func([]byte) error
}

// Run implements agent.Agent.
func (h handling) Run(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
	for _, m := range turn.Messages {
		if err := h.handle([]byte(m.Text)); err != nil {
			return agent.Result{}, err
		}
	}
	return h.Agent.Run(ctx, turn)
}
