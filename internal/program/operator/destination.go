package operator

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"turnstile/internal/protocol/wire"
	"turnstile/pkg/admin"
)

// The states of a destination, in JSON.
const (
	statePaused   = "paused"
	stateDisabled = "disabled"
	stateEnabled  = "enabled"
)

// byOperator is the reason of a pause by an operator.
const byOperator = "paused by an operator"

// listedDestination is the state of a destination.
type listedDestination struct {
	Destination string     `json:"destination"`
	State       string     `json:"state"`
	Why         string     `json:"why,omitempty"`
	Since       *time.Time `json:"since,omitempty"`
	Until       *time.Time `json:"until,omitempty"`
}

func listedState(d admin.Destination) listedDestination {
	l := listedDestination{Destination: d.Name, State: stateEnabled, Why: d.Why}
	since, until := d.Since.UTC(), d.RetryAt.UTC()
	switch {
	case d.Disabled:
		l.State = stateDisabled
		if !since.IsZero() {
			l.Since = &since
		}
	case d.Paused:
		l.State = statePaused
		if !until.IsZero() {
			l.Until = &until
		}
	}
	return l
}

// text is the state as text.
func (l listedDestination) text(now time.Time) string {
	switch {
	case l.Since != nil:
		return l.State + " since " + clock(*l.Since)
	case l.Until != nil && now.Before(*l.Until):
		return l.State + " until " + clock(*l.Until)
	case l.Until != nil:
		return "is tried again"
	case l.State == statePaused:
		return "paused until it is enabled"
	}
	return l.State
}

func (p *Program) outboxPauseCommand() *cobra.Command {
	return p.destinationCommand("pause", "Send nothing to a destination until it is enabled", true)
}

func (p *Program) outboxEnableCommand() *cobra.Command {
	return p.destinationCommand("enable", "Send to a paused or disabled destination again", false)
}

// destinationCommand is a command that pauses or enables a destination.
func (p *Program) destinationCommand(name, short string, pauses bool) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: name + " DESTINATION", Short: short, Long: outboxHelp,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("outbox %s takes one DESTINATION, but got %d", name, len(args))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			return p.setDestination(c.Context(), flagged(c), args[0], pauses, asJSON)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	addSettings(c, "REDIS_URL")
	return c
}

// setDestination pauses or enables a destination, for all deliverers.
func (p *Program) setDestination(ctx context.Context, flags map[string]string, name string, pauses, asJSON bool) error {
	if err := wire.ValidateDestination(name); err != nil {
		return err
	}
	wasOff := false
	err := p.withAdmin(ctx, flags, func(client *admin.Client, _ redis.UniversalClient) error {
		off, err := client.Destinations(ctx)
		if err != nil {
			return err
		}
		wasOff = slices.ContainsFunc(off, func(d admin.Destination) bool { return d.Name == name })
		if pauses {
			return client.PauseDestination(ctx, name, byOperator)
		}
		return client.EnableDestination(ctx, name)
	})
	switch {
	case err != nil:
		return err
	case asJSON && pauses:
		return p.printJSON(listedState(admin.Destination{Name: name, Paused: true, Why: byOperator}))
	case asJSON:
		return p.printJSON(listedState(admin.Destination{Name: name}))
	case pauses:
		return p.say("Destination %s is paused. Its deliveries wait until: %s outbox enable %[1]s", name, p.Name)
	case !wasOff:
		return p.say("Destination %s was neither paused nor disabled.", name)
	}
	return p.say("Destination %s is enabled. Its deliveries continue within about two seconds.", name)
}
