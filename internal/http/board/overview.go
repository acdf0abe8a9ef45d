package board

import (
	"errors"
	"time"

	"turnstile/internal/http/gateway"
	"turnstile/internal/redis/redisconn"
	"turnstile/pkg/admin"
	"turnstile/pkg/session"
)

// overview summarizes all workers and sessions.
type overview struct {
	admin.Backlog
	Workers, Draining int
	Sessions          int64          // all of them
	Attention         int64          // those that may need attention
	Slots, Turns      int            // of all workers, a few seconds ago
	Today             *session.Usage // nil: no agent reported tokens today
	Reasons           []reasonCount  // why the newest of them need it
	MoreAttention     bool           // there are more than Reasons counts
	Unable            []string       // what workers cannot do, for operators
	Receivers         []receiver     // that do not take their deliveries
	Defaults          []string       // what the workers' default agents are, if they differ
	Refused           string         // why Redis stores nothing, "" if it does
	Differ            bool           // another gateway's file of destinations is in force, and differs
}

// reasonCount is how many sessions need attention for one reason.
type reasonCount struct {
	Reason string
	N      int
	Link   string
}

// reasonsOf bounds the sessions of which Reasons counts the reasons.
const reasonsOf = 100

// IsLate reports whether nobody makes the deliveries that are due.
func (o overview) IsLate() bool { return o.Late >= lateFrom }

// overview reads the overview for a visitor who sees every session, nil for others: its counts are of
// all sessions. After a failure the page shows the list alone.
func (b *Board) overview(v *visit) *overview {
	if !v.token.SeesAll() {
		return nil
	}
	backlog, noBacklog := b.deps.Admin.Backlog(v.work)
	workers, noWorkers := b.deps.Admin.Workers(v.work)
	today, noTokens := b.gateway.Store().TokensToday(v.work)
	attend, noList := b.deps.Admin.Page(v.work, admin.Query{State: admin.StateAttention, Limit: reasonsOf})
	sessions, attends, noCount := b.deps.Admin.CountSessions(v.work)
	off, noStates := b.deps.Admin.Destinations(v.work)
	if err := errors.Join(noBacklog, noWorkers, noTokens, noList, noCount, noStates); err != nil {
		_ = b.problem(v.Request, err) // it logs
		return nil
	}
	o := overview{Backlog: backlog, Sessions: sessions, Attention: attends, Today: today, Differ: b.gateway.DestinationsDiffer()}
	var failing []gateway.Failing
	for _, s := range attend.Sessions {
		for _, f := range s.Failing {
			failing = append(failing, gateway.Failing(f))
		}
	}
	o.Receivers = receivers(backlog.Destinations, off, failing, time.Now())
	if err := b.deps.Admin.Ping(v.work); redisconn.RefusesWrites(err) {
		o.Refused = redisconn.Explain(err)
	}
	o.Reasons, o.MoreAttention = reasons(attend.Sessions), attend.Next != ""
	o.Defaults = gateway.DefaultAgents(workers)
	for _, w := range workers {
		if w.Started.IsZero() {
			continue // it sends no heartbeat, and appears only from time to time
		}
		o.Workers++
		if w.Draining {
			o.Draining++
		}
		o.Slots, o.Turns = o.Slots+w.Slots, o.Turns+w.Turns
		if v.token.May(gateway.Operate) { // a reason may contain anything
			for _, why := range w.Unable {
				o.Unable = append(o.Unable, why+" (worker "+w.Name+")")
			}
		}
	}
	return &o
}

// reasons counts why sessions need attention. One may have several reasons.
func reasons(list []admin.SessionInfo) []reasonCount {
	counts := []reasonCount{
		{"asking", 0, listLink(string(admin.StateAsking), "", "")},
		{"paused", 0, listLink(string(admin.StatePaused), "", "")},
		{"suspended", 0, listLink(string(admin.StateSuspended), "", "")},
		{"without a worker for their agent", 0, listLink(string(admin.StateAttention), "", "")},
		{"with dead letters", 0, listLink(string(admin.StateAttention), "", "")},
		{"with undelivered outcomes", 0, listLink(string(admin.StateAttention), "", "")},
		{"broken", 0, listLink(string(admin.StateAttention), "", "")},
	}
	for _, s := range list {
		for i, is := range []bool{s.State == admin.StateAsking, s.Paused, s.Suspended, s.Needs != "", s.DeadLetters > 0, len(s.Failing)+s.GivenUp > 0, s.Broken != ""} {
			if is {
				counts[i].N++
			}
		}
	}
	return counts
}
