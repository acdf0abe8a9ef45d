package engine

import (
	"errors"
	"sync"

	"turnstile/internal/protocol"
)

// unannounced are the sessions that this worker has released with messages in line,
// and of which it could not tell the workers. It tries again until that is done or it
// ends; reap or sweep find them as well, in their time.
type unannounced struct {
	mu       sync.Mutex
	sessions map[string]struct{}
	more     chan struct{} // there are some
}

func newUnannounced() *unannounced {
	return &unannounced{sessions: map[string]struct{}{}, more: make(chan struct{}, 1)}
}

func (u *unannounced) add(sessions ...string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, s := range sessions {
		u.sessions[s] = struct{}{}
	}
	select {
	case u.more <- struct{}{}:
	default:
	}
}

func (u *unannounced) take() (sessions []string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for s := range u.sessions {
		sessions = append(sessions, s)
	}
	clear(u.sessions)
	return sessions
}

// announce wakes them until the worker has ended.
func (w *Worker) announce() {
	pause := newPause()
	for {
		select {
		case <-w.ctx.Done():
			return
		case <-w.unannounced.more:
		}
		sessions := w.unannounced.take()
		if err := w.queue.PutBack(w.ctx, sessions); err != nil {
			w.redisFailed(dutyWake, err)
			w.unannounced.add(sessions...)
			pause.wait(w.ctx.Done())
		} else {
			pause.reset()
		}
	}
}

// stored is the error of a turn's end, or nil if that was stored: what failed behind
// it is the session's next turn's affair, and not this one's.
func (t *turn) stored(err error) error {
	if !errors.Is(err, protocol.ErrUnannounced) {
		return err
	}
	t.log.Warn("the session's next messages were not announced, trying again", "error", err)
	t.served.w.redisFailed(dutyWake, err)
	t.served.w.unannounced.add(t.Session)
	return nil
}
