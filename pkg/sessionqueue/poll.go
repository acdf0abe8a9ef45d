package sessionqueue

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// pollEvery is how often a wait's stream is looked at that has no connection to
	// wait on, and pollCost the least time from one such look to the next where there
	// are many: 5,000 looks a second are some hundredths of a Redis.
	pollEvery = 20 * time.Millisecond
	pollCost  = 200 * time.Microsecond

	// pollBatch is how many streams one pipeline looks at: a reply has an event of
	// each, however long.
	pollBatch = 50
)

// waits are the waits of a client. A wait that blocks keeps a connection from
// everybody else who shares the pool, so only so many do that as leave half of the
// pool. The streams of all others are looked at by one goroutine, in pipelines, for
// as long as there are any.
type waits struct {
	rdb      redis.UniversalClient
	blocking chan struct{} // one for each wait that blocks

	mu   sync.Mutex
	rest map[*polled]struct{}
	stop context.CancelFunc // of the goroutine; nil: there is none
}

// polled is a wait without a connection.
type polled struct {
	stream, from string
	look         chan struct{} // there is something behind from, or an error
}

func newWaits(rdb redis.UniversalClient) *waits {
	return &waits{rdb: rdb, blocking: make(chan struct{}, poolSize(rdb)/2), rest: map[*polled]struct{}{}}
}

// poolSize is how many connections a client has for ordinary commands, on a Cluster
// to each node.
func poolSize(rdb redis.UniversalClient) int {
	size, active := 10, 0 // another kind's: what go-redis gives to one CPU
	switch c := rdb.(type) {
	case *redis.Client:
		size, active = c.Options().PoolSize, c.Options().MaxActiveConns
	case *redis.ClusterClient:
		size, active = c.Options().PoolSize, c.Options().MaxActiveConns
	}
	if active > 0 {
		size = min(size, active)
	}
	return size
}

// next reads the events of a stream after from. It waits for the first up to
// readBlock, or up to patience if all the connections are taken that waits may have.
func (w *waits) next(ctx context.Context, stream, from string, patience time.Duration) ([]redis.XMessage, error) {
	select {
	case w.blocking <- struct{}{}:
		defer func() { <-w.blocking }()
		return w.read(ctx, stream, from, readBlock)
	default:
	}
	events, err := w.read(ctx, stream, from, -1)
	if err != nil || len(events) > 0 || !w.poll(ctx, stream, from, patience) {
		return events, err
	}
	return w.read(ctx, stream, from, -1)
}

// read reads the events after from. A negative block is none at all.
func (w *waits) read(ctx context.Context, stream, from string, block time.Duration) ([]redis.XMessage, error) {
	streams, err := w.rdb.XRead(ctx, &redis.XReadArgs{Streams: []string{stream, from}, Block: block}).Result()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return streams[0].Messages, nil
}

// poll waits until there may be something in a stream behind from.
func (w *waits) poll(ctx context.Context, stream, from string, patience time.Duration) bool {
	p := &polled{stream: stream, from: from, look: make(chan struct{}, 1)}
	w.join(p)
	defer w.leave(p)
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-p.look:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

func (w *waits) join(p *polled) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rest[p] = struct{}{}
	if w.stop == nil {
		ctx, stop := context.WithCancel(context.Background())
		w.stop = stop
		go w.run(ctx)
	}
}

// leave ends the goroutine with its last wait.
func (w *waits) leave(p *polled) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.rest, p)
	if len(w.rest) == 0 {
		w.stop()
		w.stop = nil
	}
}

// run looks at the streams until ctx ends.
func (w *waits) run(ctx context.Context) {
	for pause := pollEvery; ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		all := w.all()
		for some := range slices.Chunk(all, pollBatch) {
			w.lookAt(ctx, some)
		}
		pause = max(pollEvery, time.Duration(len(all))*pollCost)
	}
}

func (w *waits) all() []*polled {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := make([]*polled, 0, len(w.rest))
	for p := range w.rest {
		all = append(all, p)
	}
	return all
}

// lookAt wakes those of the waits for which there is something. They read it
// themselves: it may be more than a pipeline should carry. An error wakes them, too,
// for they know what to do about it.
func (w *waits) lookAt(ctx context.Context, some []*polled) {
	looks := make([]*redis.XStreamSliceCmd, len(some))
	_, _ = w.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i, p := range some {
			looks[i] = pipe.XRead(ctx, &redis.XReadArgs{Streams: []string{p.stream, p.from}, Count: 1, Block: -1})
		}
		return nil
	})
	for i, p := range some {
		if errors.Is(looks[i].Err(), redis.Nil) {
			continue
		}
		select {
		case p.look <- struct{}{}:
		default: // it was woken already
		}
	}
}
