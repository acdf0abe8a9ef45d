package worker

import (
	"log/slog"
	"time"

	"turnstile/internal/protocol"
)

// renewRetry is the pause after a failed renewal.
const renewRetry = 100 * time.Millisecond

// renewer renews the leases of all sessions every third of their TTL, in one round trip, until
// the worker ends. A renewal also returns the requests for the turns, in case a signal was lost.
type renewer struct {
	queue  *protocol.Consumer
	roster *roster
	life   *lifecycle
	duties duties
	log    *slog.Logger
	clock  loopClock // see Healthy

	outage outage
}

func (r *renewer) run() {
	interval := r.queue.Config().SentinelTTL / 3
	next := interval
	defer r.clock.rest()
	for {
		r.clock.rest()
		select {
		case <-r.life.work.Done():
			return
		case <-time.After(next):
		}
		r.clock.step()
		next = interval
		if failed := r.renew(); failed {
			next = renewRetry
		}
	}
}

// renew renews once, and reports whether it failed for a session that is not lost.
func (r *renewer) renew() bool {
	sessions := map[*protocol.Claim]*sessionRun{}
	var claims []*protocol.Claim
	for _, s := range r.roster.all() {
		// Lost sessions are no longer renewed.
		if s.claim.Lease().Held() == nil {
			claims = append(claims, s.claim)
			sessions[s.claim] = s
		}
	}
	if len(claims) == 0 {
		r.outage = outage{} // without sessions the end of an outage goes unnoticed
		return false
	}
	failed, why := 0, error(nil)
	for _, n := range r.queue.Renew(r.life.work, claims) {
		if n.Err != nil && n.Claim.Lease().Held() == nil {
			failed, why = failed+1, n.Err
		}
		sessions[n.Claim].apply(n.Fence, n.Requested, n.Steer, n.Decided)
	}
	if failed > 0 {
		r.duties.failed(dutyRenew, why)
	}
	r.outage.report(r.log, failed, why)
	return failed > 0
}

// outage is a time in which renewals fail. They are tried several times a second for each session,
// so only the outage's beginning and end are logged.
type outage struct{ since time.Time }

func (o *outage) report(log *slog.Logger, failed int, why error) {
	switch {
	case failed > 0 && o.since.IsZero():
		o.since = time.Now()
		log.Warn("renewals fail, trying again", "sessions", failed, "error", why)
	case failed == 0 && !o.since.IsZero():
		log.Info("renewals succeed again", "after", time.Since(o.since).Round(time.Millisecond))
		o.since = time.Time{}
	}
}
