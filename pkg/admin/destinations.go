package admin

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"turnstile/internal/protocol/deliveries"
	"turnstile/internal/protocol/wire"
)

// Destination is a destination to which nothing is sent, and why.
type Destination struct {
	Name             string
	Paused, Disabled bool // Disabled: its receiver rejects all deliveries
	Why              string
	RetryAt          time.Time // of Paused: when deliverers try again. Zero: not before EnableDestination
	Since            time.Time // of Disabled
}

// Destinations returns the paused and disabled destinations, by name.
func (a *Client) Destinations(ctx context.Context) ([]Destination, error) {
	states, _, err := deliveries.Destinations(ctx, a.rdb)
	if err != nil {
		return nil, fmt.Errorf("read the states of destinations: %w", err)
	}
	list := make([]Destination, 0, len(states))
	for name, s := range states {
		d := Destination{Name: name, Paused: s.Paused, Disabled: s.Disabled, Why: s.Why}
		switch at := time.UnixMilli(s.At); {
		case s.At == 0:
		case s.Disabled:
			d.Since = at
		default:
			d.RetryAt = at
		}
		list = append(list, d)
	}
	slices.SortFunc(list, func(x, y Destination) int { return cmp.Compare(x.Name, y.Name) })
	return list, nil
}

// PauseDestination makes all deliveries to a destination wait until EnableDestination. why is shown
// to operators.
func (a *Client) PauseDestination(ctx context.Context, name, why string) error {
	return a.setDestination(ctx, name, deliveries.DestinationState{Paused: true, Why: why})
}

// EnableDestination enables a destination after a pause or a response 410. Deliveries continue
// within about two seconds. It reads each session that has deliveries, about 100,000 in a second.
func (a *Client) EnableDestination(ctx context.Context, name string) error {
	err := a.setDestination(ctx, name, deliveries.DestinationState{})
	if err != nil {
		return err
	}
	if err := deliveries.ResumeDestination(ctx, a.rdb, name); err != nil {
		return fmt.Errorf("destination %s is enabled, but its deliveries may wait for a minute: %w", name, err)
	}
	return nil
}

func (a *Client) setDestination(ctx context.Context, name string, s deliveries.DestinationState) error {
	if err := wire.ValidateDestination(name); err != nil {
		return err
	}
	if err := deliveries.SetDestination(ctx, a.rdb, name, s); err != nil {
		return fmt.Errorf("set the state of destination %s: %w", name, err)
	}
	return nil
}
