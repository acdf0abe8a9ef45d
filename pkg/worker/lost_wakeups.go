package worker

import (
	"errors"
	"maps"
	"slices"
	"sync"

	"turnstile/internal/backoff"
	"turnstile/internal/protocol"
)

// lostWakeUps are the sessions with waiting messages that this worker released, or popped and did not claim, and
// could not wake. It tries again until it succeeds or the worker ends. Reap or sweep would find them as well, but
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

// add adds the sessions of a NotWokenError. It returns false for any other error.
func (l *lostWakeUps) add(err error) bool {
	var lost *protocol.NotWokenError
	if !errors.As(err, &lost) {
		return false
	}
	l.duties.failed(dutyWake, err)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range lost.Sessions {
		l.sessions[s] = struct{}{}
	}
	select {
	case l.more <- struct{}{}:
	default:
	}
	return true
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
		if err := l.queue.PutBack(l.life.work, l.take()); l.add(err) {
			failures++
			backoff.Redis.Wait(l.life.work.Done(), failures)
		} else {
			failures = 0
		}
	}
}
