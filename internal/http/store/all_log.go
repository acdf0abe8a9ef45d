package store

import (
	"context"
	"slices"
	"sync"
	"time"

	"turnstile/internal/protocol/stream"
	"turnstile/pkg/session"
)

const (
	// logMost is about how many bytes of events an allLog has. Half of them are left when it drops some.
	logMost = 8 << 20

	// logRead is how many events a reader takes from it at a time.
	logRead = 64
)

// allLog has the latest events of all sessions. One goroutine reads them for all calls of AllEvents, while there are any.
type allLog struct {
	most  int // bytes
	stop  context.CancelFunc
	began chan struct{} // is closed when the log has a beginning: every later event comes into it

	mu      sync.Mutex
	readers map[*logReader]struct{}
	resume  int64 // every event up to this time came into the log
	events  []AnyEvent
	first   int64 // the number of events[0]
	bytes   int
	changed chan struct{} // is closed at the next event
}

// logReader is a call of AllEvents.
type logReader struct {
	log  *allLog
	sees func(sessionKey string) bool
	next int64 // the number of the next event
	from int64 // the log has every event after this time
}

// join begins to read the log, and starts it for the first reader. Call leave at the end.
func (s *Store) join(sees func(string) bool) *logReader {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.log == nil {
		ctx, stop := context.WithCancel(context.Background())
		s.log = &allLog{most: s.logMost, stop: stop, began: make(chan struct{}), readers: map[*logReader]struct{}{}, changed: make(chan struct{})}
		go s.log.run(ctx, s)
	}
	r := &logReader{log: s.log, sees: sees}
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	r.log.readers[r] = struct{}{}
	return r
}

func (s *Store) leave(r *logReader) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	if delete(r.log.readers, r); len(r.log.readers) == 0 {
		r.log.stop()
		s.log = nil
	}
}

// run reads the events of all sessions that a reader sees, until ctx ends.
func (l *allLog) run(ctx context.Context, s *Store) {
	f := &allFollower{rdb: s.rdb, store: s, sees: l.seen, see: l.add, places: map[string]stream.EventID{}}
	for {
		pause, err := f.round(ctx)
		if err != nil {
			pause = time.Second // it continues at the same place
		} else {
			l.mu.Lock()
			l.resume = f.resume
			l.mu.Unlock()
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

func (l *allLog) seen(sessionKey string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for r := range l.readers {
		if r.sees(sessionKey) {
			return true
		}
	}
	return false
}

// add appends an event, and drops the oldest ones if there are too many.
func (l *allLog) add(e AnyEvent) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.resume = e.Resume; e.Type == session.EventPlace {
		select {
		case <-l.began:
		default:
			close(l.began)
		}
		return nil
	}
	l.events, l.bytes = append(l.events, e), l.bytes+sizeOf(e)
	if l.bytes > l.most {
		n := 0
		for ; l.bytes > l.most/2; n++ {
			l.bytes -= sizeOf(l.events[n])
		}
		l.events, l.first = slices.Clone(l.events[n:]), l.first+int64(n)
	}
	close(l.changed)
	l.changed = make(chan struct{})
	return nil
}

// sizeOf is about how much memory an event takes.
func sizeOf(e AnyEvent) int {
	return 1000 + len(e.Text) + len(e.Reply) + len(e.Input) + len(e.Output) + len(e.Data) + len(e.Error) + len(e.Detail)
}

// toEnd has the reader continue after the last event of the log. Whatever is not later than from, or was in the log before,
// it has to read by itself.
func (r *logReader) toEnd(ctx context.Context) error {
	select {
	case <-r.log.began:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	r.next, r.from = r.log.first+int64(len(r.log.events)), r.log.resume
	return nil
}

// read returns the next events. Without any, every event up to resume was read, and changed is closed at the next one. lost
// says that the log has dropped the next event.
func (r *logReader) read() (events []AnyEvent, resume int64, changed <-chan struct{}, lost bool) {
	l := r.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.next < l.first {
		return nil, 0, nil, true
	}
	rest := l.events[r.next-l.first:]
	events = slices.Clone(rest[:min(len(rest), logRead)])
	r.next += int64(len(events))
	return events, l.resume, l.changed, false
}
