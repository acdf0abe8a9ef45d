package main

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// awayEvery is how often at most somebody who waits is told that Redis is away:
	// of a cluster some part may be, while others answer.
	awayEvery = 30 * time.Second

	// awayAfter is how long nothing was heard of a Redis that may be away. A wait
	// asks at least once a second.
	awayAfter = 3 * time.Second
)

// away listens, as a hook of the client, for a Redis that does not answer: a wait
// outlasts that in silence.
type away struct {
	note func(line string)

	mu      sync.Mutex
	waiting bool      // somebody waits, and is to be told
	is      bool      // the last call was not answered
	told    time.Time // when somebody was
	heard   time.Time // when Redis answered last
}

// wait begins to tell.
func (a *away) wait() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiting = true
}

// maybe reports whether Redis may be away, so that nothing is known of it.
func (a *away) maybe() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.is || time.Since(a.heard) > awayAfter
}

// hear takes in how a call went.
func (a *away) hear(ctx context.Context, err error) {
	at, limited := ctx.Deadline()
	if err != nil && (ctx.Err() != nil || limited && !time.Now().Before(at)) {
		return // its caller has had enough
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	var answer redis.Error
	if a.is = err != nil && (!errors.As(err, &answer) || strings.HasPrefix(answer.Error(), "LOADING ")); !a.is {
		a.heard = time.Now()
		return
	}
	if a.waiting && time.Since(a.told) > awayEvery {
		a.told = time.Now()
		a.note("enqueue: Redis is away, waiting for it")
	}
}

func (a *away) DialHook(next redis.DialHook) redis.DialHook { return next }

func (a *away) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		a.hear(ctx, err)
		return err
	}
}

func (a *away) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		a.hear(ctx, err)
		return err
	}
}
