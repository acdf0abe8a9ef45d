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
	// awayEvery is the shortest time between two warnings that Redis is away: a part of a cluster
	// may be away while others respond.
	awayEvery = 30 * time.Second

	// awayAfter is how long a Redis must be silent to count as away. A wait sends a command at
	// least once a second.
	awayAfter = 3 * time.Second
)

// away is a hook of the client that notices a Redis that does not respond, because a wait would
// outlast that in silence.
type away struct {
	note func(line string)

	mu        sync.Mutex
	waiting   bool      // a caller waits, and wants warnings
	is        bool      // the last call got no response
	warned    time.Time // when the last warning was shown
	responded time.Time // when Redis last responded
}

// wait switches warnings on.
func (a *away) wait() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiting = true
}

// maybe reports whether Redis may be away, so that the state of a message is unknown.
func (a *away) maybe() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.is || time.Since(a.responded) > awayAfter
}

// record keeps the outcome of a call.
func (a *away) record(ctx context.Context, err error) {
	at, limited := ctx.Deadline()
	if err != nil && (ctx.Err() != nil || limited && !time.Now().Before(at)) {
		return // its caller has given up
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	var failed redis.Error
	if a.is = err != nil && (!errors.As(err, &failed) || strings.HasPrefix(failed.Error(), "LOADING ")); !a.is {
		a.responded = time.Now()
		return
	}
	if a.waiting && time.Since(a.warned) > awayEvery {
		a.warned = time.Now()
		a.note("enqueue: Redis is unreachable, waiting for it")
	}
}

func (a *away) DialHook(next redis.DialHook) redis.DialHook { return next }

func (a *away) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		a.record(ctx, err)
		return err
	}
}

func (a *away) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		a.record(ctx, err)
		return err
	}
}
