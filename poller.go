package turnstile

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"turnstile/internal/protocol/stream"

	"github.com/redis/go-redis/v9"
)

const (
	// pollEvery is how often the poller reads each stream. pollCost is the least time per stream,
	// so a round over many streams takes longer: 5,000 reads a second cost Redis a few percent of
	// its time.
	pollEvery = 20 * time.Millisecond
	pollCost  = 200 * time.Microsecond

	// pollBatch is how many streams one pipeline reads.
	pollBatch = 50

	// eventsPage is how many bytes of a stream one reply has, and messagePage the same where one message is followed: its
	// reader holds the page while it shows the events. A longer event is read alone.
	eventsPage  = 256 << 10
	messagePage = 64 << 10
)

// waits are the waits of a client. Some block, each on a connection of the pool, up to half of the
// pool, so that other users of the pool keep the rest. One goroutine, the poller, reads the streams
// of the others in pipelines. It runs while there are any.
type waits struct {
	rdb      redis.UniversalClient
	blocking chan struct{} // one element for each wait that blocks
	pages    chan struct{} // one element for each page that is read and decoded: many at once would take much memory

	mu      sync.Mutex
	rest    map[*polled]struct{}
	stop    context.CancelFunc // stops the poller; nil: it does not run
	watched map[string]*watched
}

// polled is a wait that the poller serves.
type polled struct {
	stream, from string
	look         chan struct{} // receives when there are events after from, or an error
}

// wake has the wait read its stream.
func (p *polled) wake() {
	select {
	case p.look <- struct{}{}:
	default: // already woken
	}
}

func newWaits(rdb redis.UniversalClient) *waits {
	return &waits{
		rdb: rdb, blocking: make(chan struct{}, poolSize(rdb)/2), pages: make(chan struct{}, max(poolSize(rdb)/2, 1)), rest: map[*polled]struct{}{}, watched: map[string]*watched{},
	}
}

// poolSize is how many connections a client has for commands, on a Cluster to each node.
func poolSize(rdb redis.UniversalClient) int {
	size, active := 10, 0 // other kinds of client: go-redis' default for one CPU
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

// reader reads a session's stream forwards, page by page.
type reader struct {
	waits  *waits
	stream string
	from   string // ID of the last event that was read
	more   bool   // more events may be stored after from: read without waiting
}

// rewind restarts the reader at the stream's beginning.
func (r *reader) rewind() { r.from, r.more = "0", true }

// next reads the next events. It waits for the first one up to readBlock on a connection, or up to
// patience in the poller.
func (r *reader) next(ctx context.Context, patience time.Duration) ([]redis.XMessage, error) {
	if r.more {
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

// page reads stored events, up to messagePage bytes.
func (r *reader) page(ctx context.Context) ([]redis.XMessage, error) {
	events, more, err := stream.EventsPage(ctx, r.waits.rdb, r.stream, r.from, messagePage)
	if err != nil {
		return nil, err
	}
	r.read(events, more)
	return events, nil
}

// block waits for one event. XREAD can limit the number of events but not their bytes, so the next
// page reads the rest.
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

// await waits until a stream may have events after from: up to readBlock on a connection, or up to
// patience in the poller.
func (w *waits) await(ctx context.Context, stream, from string, patience time.Duration) error {
	select {
	case w.blocking <- struct{}{}:
		defer func() { <-w.blocking }()
	default:
		w.poll(ctx, stream, from, patience)
		return nil
	}
	err := w.rdb.XRead(ctx, &redis.XReadArgs{Streams: []string{stream, from}, Count: 1, Block: readBlock}).Err()
	if errors.Is(err, redis.Nil) {
		return nil
	}
	return err
}

func (r *reader) read(events []redis.XMessage, more bool) {
	r.more = more
	if n := len(events); n > 0 {
		r.from = events[n-1].ID
	}
}

// poll waits until a stream may have events after from. It returns false if patience or ctx ends
// first.
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
	w.watch(p)
	if w.stop == nil {
		ctx, stop := context.WithCancel(context.Background())
		w.stop = stop
		go w.run(ctx)
	}
}

// leave removes a wait. The last one stops the poller.
func (w *waits) leave(p *polled) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.rest, p)
	w.unwatch(p)
	if len(w.rest) == 0 {
		w.stop()
		w.stop = nil
	}
}

// run is the poller: it reads the streams until ctx ends.
func (w *waits) run(ctx context.Context) {
	var n notices
	defer n.end()
	for round, pause := 0, pollEvery; ; round++ {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		all := w.all(round%watchedEvery == 0)
		n.renew(ctx, w)
		for some := range slices.Chunk(all, pollBatch) {
			w.lookAt(ctx, some)
		}
		pause = max(pollEvery, time.Duration(len(all))*pollCost)
	}
}

// all returns the waits to look at. Most rounds leave out those that get notices.
func (w *waits) all(watched bool) []*polled {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	all := make([]*polled, 0, len(w.rest))
	for p := range w.rest {
		if watched || !now.Before(w.watched[p.stream].until) {
			all = append(all, p)
		}
	}
	return all
}

// lookAt wakes the waits for streams with new events, which they read themselves. An error wakes
// them too: they handle it.
func (w *waits) lookAt(ctx context.Context, some []*polled) {
	places := make([]stream.Place, len(some))
	for i, p := range some {
		places[i] = stream.Place{Stream: p.stream, From: p.from}
	}
	for i, there := range stream.HaveEvents(ctx, w.rdb, places) {
		if !there {
			continue
		}
		some[i].wake()
	}
}
