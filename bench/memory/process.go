package main

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/bench/internal/lab"
	"turnstile/internal/protocol/rediskey"
)

// process is a worker's process, with a sender in this one.
type process struct {
	child *lab.Child
	rdb   *redis.Client // the sender's
}

// start starts a worker, and first makes it do a little of everything, so that one-time allocations
// do not count.
func start(ctx context.Context, srv *lab.Server, j job, warm lab.Load) (*process, error) {
	j.Addr = srv.Addr()
	child, err := lab.Spawn(ctx, j)
	if err != nil {
		return nil, err
	}
	p := &process{child: child, rdb: srv.Client()}
	var ready string
	if err := child.Read(&ready); err != nil {
		p.end()
		return nil, err
	}
	err = warm.Fill(ctx, p.rdb, "warm", "hello")
	if err == nil {
		err = p.ended(ctx, warm.Messages())
	}
	if err != nil {
		p.end()
		return nil, err
	}
	return p, nil
}

func (p *process) end() {
	p.child.End()
	_ = p.rdb.Close()
}

// afterGC is the worker's state without its garbage.
func (p *process) afterGC() (s state, err error) { return s, p.child.Call("collect", &s) }

// now is the worker's state with its garbage.
func (p *process) now() (s state, err error) { return s, p.child.Call("now", &s) }

func (p *process) ended(ctx context.Context, n int) error {
	return lab.Until(ctx, "the end of all turns", 50*time.Millisecond, func() (bool, error) {
		s, err := p.now()
		return s.Ended >= int64(n) && s.Running == 0, err
	})
}

// quiet waits until the worker's index of sessions is empty.
func (p *process) quiet(ctx context.Context) error {
	return lab.Until(ctx, "an empty index of owned sessions", 200*time.Millisecond, func() (bool, error) {
		n, err := p.rdb.ZCard(ctx, rediskey.Owned).Result()
		return n == 0, err
	})
}
