package board

import (
	"errors"
	"time"

	"turnstile/pkg/admin"
	"turnstile/pkg/session"
)

// overview is what all workers and sessions do together.
type overview struct {
	admin.Backlog
	Workers, Draining int
	Slots, Turns      int            // of all workers, a few seconds ago
	Today             *session.Usage // nil: no agent has reported tokens today
	Differ            bool           // this gateway's file of destinations is not the one that decides
}

// lateFrom is from when on a delivery that nobody makes is worth a word.
const lateFrom = 10 * time.Second

// IsLate reports whether nobody looks at deliveries that are due.
func (o overview) IsLate() bool { return o.Late >= lateFrom }

// overview reads the overview for a visitor who sees every session, nil for others: its counts are of
// all sessions. A failure is no reason to show no list.
func (b *Board) overview(v *visit) *overview {
	if !v.token.SeesAll() {
		return nil
	}
	backlog, noBacklog := b.deps.Admin.Backlog(v.work)
	workers, noWorkers := b.deps.Admin.Workers(v.work)
	today, noTokens := b.deps.Admin.TokensToday(v.work)
	if err := errors.Join(noBacklog, noWorkers, noTokens); err != nil {
		_ = b.problem(v.Request, err) // it logs
		return nil
	}
	o := overview{Backlog: backlog, Today: today, Differ: b.gateway.DestinationsDiffer()}
	for _, w := range workers {
		if w.Started.IsZero() {
			continue // it sends no heartbeat, and is found only now and then
		}
		o.Workers++
		if w.Draining {
			o.Draining++
		}
		o.Slots, o.Turns = o.Slots+w.Slots, o.Turns+w.Turns
	}
	return &o
}
