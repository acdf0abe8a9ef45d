package traffic

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"turnstile/chaos/internal/world"
	"turnstile/internal/protocol/deliveries"
	"turnstile/pkg/admin"
	"turnstile/test/history"
)

// OperateDeliveries is an operator who pauses, disables and enables the destination, and redrives dead
// deliveries, until ctx ends.
func (t *Traffic) OperateDeliveries(ctx context.Context, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 2))
	states := []deliveries.DestinationState{{}, {}, {Paused: true, Why: "operator"}, {Disabled: true, Why: "operator"}}
	for {
		pause := time.NewTimer(time.Duration(2+rng.IntN(10)) * time.Second)
		select {
		case <-ctx.Done():
			pause.Stop()
			return
		case <-pause.C:
			_ = t.setDestination(ctx, states[rng.IntN(len(states))]) // Redis may be away
		}
	}
}

// ResumeDeliveries enables the destination and redrives all, as soon as Redis permits it, and again for
// responses that were in flight.
func (t *Traffic) ResumeDeliveries(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, t.longest)
	defer cancel()
	for done := 0; done < 2 && ctx.Err() == nil; {
		if t.setDestination(ctx, deliveries.DestinationState{}) == nil {
			done++
		}
		time.Sleep(5 * time.Second)
	}
}

// setDestination sets the destination's state, and redrives dead deliveries.
func (t *Traffic) setDestination(ctx context.Context, state deliveries.DestinationState) error {
	a := admin.NewClient(t.rdb)
	rec := history.Record{Kind: history.Operator, Name: "destination", Since: time.Now().UnixNano()}
	err := deliveries.SetDestination(ctx, t.rdb, world.Destination, state)
	if state == (deliveries.DestinationState{}) {
		err = a.EnableDestination(ctx, world.Destination)
	}
	for s, failed := range a.Sessions(ctx, admin.Query{State: admin.StateUndelivered}) {
		if failed == nil {
			_, failed = a.Session(s.Session).Redrive(ctx, admin.All)
		}
		err = errors.Join(err, failed)
	}
	if rec.Status = "enabled"; state.Paused || state.Disabled {
		rec.Status = "off"
	}
	if err != nil {
		rec.Error = err.Error()
	}
	t.log.Add(rec)
	return err
}
