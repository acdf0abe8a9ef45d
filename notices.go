package turnstile

import (
	"context"
	"crypto/rand"
	"slices"
	"sync"
	"time"

	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/stream"
)

const (
	// noticesFrom is the number of streams above which the poller asks for notices of new events. A
	// round over fewer streams is so short that notices would not help.
	noticesFrom = 100

	// watchTTL is how long workers send notices of a session. The request is renewed after half of
	// it, and when a worker starts: it may be the session's next owner.
	watchTTL = 30 * time.Second

	// watchBatch is how many sessions one request names.
	watchBatch = 500

	// The poller reads a stream with notices in every watchedEvery-th round.
	watchedEvery = 5
)

// watched is a stream that the poller reads, or has read.
type watched struct {
	session string
	waits   map[*polled]struct{}
	renewAt time.Time // when to ask for notices
	until   time.Time // when the last notice may come
	noticed bool      // a notice arrived while there was no wait
}

// watch adds a wait to its stream. The caller holds w.mu.
func (w *waits) watch(p *polled) {
	s := w.watched[p.stream]
	if s == nil {
		session, _, _ := rediskey.Parse(p.stream)
		s = &watched{session: session, waits: map[*polled]struct{}{}}
		w.watched[p.stream] = s
	}
	s.waits[p] = struct{}{}
	if s.noticed {
		s.noticed = false
		p.wake()
	}
}

// unwatch removes a wait. Its stream stays known while notices may arrive, because the next wait is
// about to begin. The caller holds w.mu.
func (w *waits) unwatch(p *polled) {
	s := w.watched[p.stream]
	if delete(s.waits, p); len(s.waits) == 0 && !time.Now().Before(s.until) {
		delete(w.watched, p.stream)
	}
}

// notice wakes the waits for a stream.
func (w *waits) notice(stream string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.watched[stream]
	if s == nil {
		return
	}
	s.noticed = len(s.waits) == 0
	for p := range s.waits {
		p.wake()
	}
}

func (w *waits) streams() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.watched)
}

// renewAll makes the next round ask for all notices again.
func (w *waits) renewAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.watched {
		s.renewAt = time.Time{}
	}
}

// toRenew returns the sessions to request notices of, and removes the streams that are no longer
// read.
func (w *waits) toRenew() (sessions []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	for stream, s := range w.watched {
		switch {
		case len(s.waits) > 0 && !now.Before(s.renewAt):
			s.renewAt, s.until = now.Add(watchTTL/2), now.Add(watchTTL)
			sessions = append(sessions, s.session)
		case len(s.waits) == 0 && !now.Before(s.until):
			delete(w.watched, stream)
		}
	}
	return sessions
}

// notices is the poller's subscription to notices of new events. It is used when there are many
// streams: a round over 10,000 takes two seconds. A notice may get lost; the next round finds its
// event.
type notices struct {
	reader string
	stop   context.CancelFunc
	done   sync.WaitGroup
}

// renew asks for notices, if the poller reads so many streams.
func (n *notices) renew(ctx context.Context, w *waits) {
	if n.stop == nil {
		if w.streams() < noticesFrom {
			return
		}
		n.subscribe(ctx, w)
	}
	for part := range slices.Chunk(w.toRenew(), watchBatch) {
		// An error means later events: the poller finds them.
		_ = stream.Watch(ctx, w.rdb, n.reader, watchTTL, part)
	}
}

// subscribe returns once Redis has confirmed the subscription: earlier notices would be lost.
func (n *notices) subscribe(ctx context.Context, w *waits) {
	ctx, n.stop = context.WithCancel(ctx)
	n.reader = "reader-" + rand.Text()
	ready := make(chan struct{})
	n.done.Go(func() {
		// An error means that the client is closed. Then the waits end, too.
		_ = stream.Notices(ctx, w.rdb, n.reader, func() { close(ready) }, w.renewAll, w.notice)
	})
	select {
	case <-ready:
	case <-ctx.Done():
	}
}

func (n *notices) end() {
	if n.stop != nil {
		n.stop()
		n.done.Wait()
	}
}
