package worker

import (
	"maps"
	"slices"
	"sync"

	"turnstile/internal/backoff"
	"turnstile/internal/protocol"
)

// lostWakeUps are the sessions that this worker released with waiting messages and could not wake.
// It tries again until it succeeds or the worker ends. Reap or sweep would find them as well, but
// later.
type lostWakeUps struct {
	queue  *protocol.Consumer
	life   *lifecycle
	duties duties

	mu       sync.Mutex
	sessions map[string]struct{}
	more     chan struct{} // sessions is not empty
}

func newLostWakeUps(queue *protocol.Consumer, life *lifecycle, d duties) *lostWakeUps {
	return &lostWakeUps{queue: queue, life: life, duties: d, sessions: map[string]struct{}{}, more: make(chan struct{}, 1)}
}

// add adds sessions that could not be woken, and why.
func (l *lostWakeUps) add(why error, sessions ...string) {
	l.duties.failed(dutyWake, why)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range sessions {
		l.sessions[s] = struct{}{}
	}
	select {
	case l.more <- struct{}{}:
	default:
	}
}

func (l *lostWakeUps) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	sessions := slices.Collect(maps.Keys(l.sessions))
	clear(l.sessions)
	return sessions
}

// run wakes the sessions until the worker ends.
func (l *lostWakeUps) run() {
	failures := 0
	for {
		select {
		case <-l.life.work.Done():
			return
		case <-l.more:
		}
		sessions := l.take()
		if err := l.queue.PutBack(l.life.work, sessions); err != nil {
			l.add(err, sessions...)
			failures++
			backoff.Redis.Wait(l.life.work.Done(), failures)
		} else {
			failures = 0
		}
	}
}
