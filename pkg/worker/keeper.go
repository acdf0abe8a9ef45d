package worker

import (
	"time"

	"turnstile/pkg/sessionqueue"
)

// renewRetry is the pause after a renewal that failed: the lease runs on.
const renewRetry = 100 * time.Millisecond

// keep renews the sentinels of all served sessions every third of their TTL, in
// one round trip, until the worker has ended. It also learns what is asked of
// the turns, should a signal have got lost.
func (w *Worker) keep() {
	interval := w.queue.Config().SentinelTTL / 3
	next := interval
	defer w.keeping.rest()
	for {
		w.keeping.rest()
		select {
		case <-w.ctx.Done():
			return
		case <-time.After(next):
		}
		w.keeping.step()
		next = interval
		var failed error
		sessions := w.snapshot()
		holds := make([]*sessionqueue.Hold, 0, len(sessions))
		byHold := make(map[*sessionqueue.Hold]*served, len(sessions))
		for _, s := range sessions {
			// Those that are lost already get no further renewal.
			if s.hold.Lease().Held() == nil {
				holds = append(holds, s.hold)
				byHold[s.hold] = s
			}
		}
		if len(holds) == 0 {
			continue
		}
		for _, r := range w.queue.Renew(w.ctx, holds) {
			s := byHold[r.Hold]
			switch {
			case r.Err != nil && s.hold.Lease().Held() == nil:
				s.log.Warn("renewal failed, trying again", "error", r.Err)
				next, failed = renewRetry, r.Err
			case r.Asked != nil:
				s.ask(r.Fence, r.Asked)
			case r.Steer:
				s.steer(r.Fence)
			}
			if r.Reply.Question != 0 {
				s.reply(r.Fence, r.Reply)
			}
		}
		if failed != nil {
			w.redisFailed(dutyRenew, failed)
		}
	}
}

func (w *Worker) snapshot() []*served {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.active()
}

// active are the sessions that are served. w.mu is held.
func (w *Worker) active() []*served {
	all := make([]*served, 0, len(w.sessions))
	for s := range w.sessions {
		all = append(all, s)
	}
	return all
}
