package engine

import (
	"log/slog"
	"time"

	"turnstile/internal/protocol"
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
	var out outage
	for {
		w.keeping.rest()
		select {
		case <-w.ctx.Done():
			return
		case <-time.After(next):
		}
		w.keeping.step()
		next = interval
		sessions := w.snapshot()
		holds := make([]*protocol.Claim, 0, len(sessions))
		byHold := make(map[*protocol.Claim]*served, len(sessions))
		for _, s := range sessions {
			// Those that are lost already get no further renewal.
			if s.hold.Lease().Held() == nil {
				holds = append(holds, s.hold)
				byHold[s.hold] = s
			}
		}
		if len(holds) == 0 {
			out = outage{} // nobody learns here when it is over
			continue
		}
		failed, why := 0, error(nil)
		for _, r := range w.queue.Renew(w.ctx, holds) {
			s := byHold[r.Hold]
			switch {
			case r.Err != nil && s.hold.Lease().Held() == nil:
				failed, why = failed+1, r.Err
				next = renewRetry
			case r.Asked != nil:
				s.ask(r.Fence, r.Asked)
			case r.Steer:
				s.steer(r.Fence)
			}
			if r.Reply.Question != 0 {
				s.reply(r.Fence, r.Reply)
			}
		}
		if failed > 0 {
			w.redisFailed(dutyRenew, why)
		}
		out.tell(w.log, failed, why)
	}
}

// outage is a time in which renewals fail. It is logged when it begins and when it
// is over: they are tried several times a second, for each session.
type outage struct{ since time.Time }

func (o *outage) tell(log *slog.Logger, failed int, why error) {
	switch {
	case failed > 0 && o.since.IsZero():
		o.since = time.Now()
		log.Warn("renewals fail, trying again", "sessions", failed, "error", why)
	case failed == 0 && !o.since.IsZero():
		log.Info("renewals succeed again", "after", time.Since(o.since).Round(time.Millisecond))
		o.since = time.Time{}
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
