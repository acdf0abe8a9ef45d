package worker

import (
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/lease"
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

	trips    []time.Duration // to Redis, the last three
	short    atomic.Bool     // the lease is too short for them
	warnings *rate.Limiter   // that it is
	losses   *rate.Limiter   // of lines about lost turns meanwhile
}

// took records a round trip. Three must fit into the trusted part of a lease next to the pause between renewals: a
// renewal is two, and the reply of the next one may come after a third.
func (r *renewer) took(trip time.Duration) {
	r.trips = append(r.trips[max(0, len(r.trips)-2):], trip)
	ttl, median := r.queue.Config().SentinelTTL, slices.Sorted(slices.Values(r.trips))[len(r.trips)/2]
	short := len(r.trips) == 3 && ttl/3+3*median > lease.Trusted(ttl)
	r.short.Store(short)
	if short && r.warnings.Allow() {
		r.log.Warn("the lease is too short for the round trips to Redis, so that turns lose it: raise TURNSTILE_SENTINEL_TTL",
			"round_trip", median.Round(time.Millisecond), "lease", ttl, "at_least", (6*median).Truncate(time.Second)+time.Second)
	}
}

// quiet reports whether the log need not have a turn that lost its lease: it would be one of many.
func (r *renewer) quiet() bool { return r.short.Load() && !r.losses.Allow() }

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
	failed, why, sent := 0, error(nil), time.Now()
	renewals := r.queue.Renew(r.life.work, claims)
	took := time.Since(sent)
	for _, n := range renewals {
		if n.Err != nil && n.Claim.Lease().Held() == nil {
			failed, why = failed+1, n.Err
		}
		sessions[n.Claim].apply(n.Fence, n.Requested, n.Steer, n.Decided)
	}
	if failed > 0 {
		r.duties.failed(dutyRenew, why)
	} else {
		r.took(took / 2)
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
