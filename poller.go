package turnstile

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
)

const (
	// pollEvery is how often a wait's stream is looked at that has no connection to
	// wait on, and pollCost the least time from one such look to the next where there
	// are many: 5,000 looks a second are some hundredths of a Redis.
	pollEvery = 20 * time.Millisecond
	pollCost  = 200 * time.Microsecond

	// pollBatch is how many streams one pipeline looks at.
	pollBatch = 50

	// eventsPage is how many bytes of a stream one reply has, or one event more.
	eventsPage = 2 << 20
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

// reader reads a session's stream forwards, a page at a time.
type reader struct {
	waits  *waits
	stream string
	from   string // the last event that was read
	behind bool   // there may be more behind it, to be read without waiting
}

// rewind has the reader begin anew.
func (r *reader) rewind() { r.from, r.behind = "0", true }

// next reads the next events. It waits for the first up to readBlock, or up to
// patience if all the connections are taken that waits may have.
func (r *reader) next(ctx context.Context, patience time.Duration) ([]redis.XMessage, error) {
	if r.behind {
		if events, err := r.page(ctx); err != nil || len(events) > 0 {
			return events, err
		}
	}
	select {
	case r.waits.blocking <- struct{}{}:
		defer func() { <-r.waits.blocking }()
		return r.block(ctx)
	default:
	}
	events, err := r.page(ctx)
	if err != nil || len(events) > 0 || !r.waits.poll(ctx, r.stream, r.from, patience) {
		return events, err
	}
	return r.page(ctx)
}

// page reads what is there now, as much as one reply may have.
func (r *reader) page(ctx context.Context) ([]redis.XMessage, error) {
	events, more, err := protocol.EventsPage(ctx, r.waits.rdb, r.stream, r.from, eventsPage)
	if err != nil {
		return nil, err
	}
	r.read(events, more)
	return events, nil
}

// block waits for one event. XREAD can count events, not bytes: what else has come
// is for the next page.
func (r *reader) block(ctx context.Context) ([]redis.XMessage, error) {
	streams, err := r.waits.rdb.XRead(ctx, &redis.XReadArgs{Streams: []string{r.stream, r.from}, Count: 1, Block: readBlock}).Result()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r.read(streams[0].Messages, true)
	return streams[0].Messages, nil
}

func (r *reader) read(events []redis.XMessage, behind bool) {
	r.behind = behind
	if n := len(events); n > 0 {
		r.from = events[n-1].ID
	}
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

// lookAt wakes those of the waits for which there is something, which they read
// themselves. An error wakes them, too, for they know what to do about it.
func (w *waits) lookAt(ctx context.Context, some []*polled) {
	places := make([]protocol.Place, len(some))
	for i, p := range some {
		places[i] = protocol.Place{Stream: p.stream, From: p.from}
	}
	for i, there := range protocol.HaveEvents(ctx, w.rdb, places) {
		if !there {
			continue
		}
		select {
		case some[i].look <- struct{}{}:
		default: // it was woken already
		}
	}
}
