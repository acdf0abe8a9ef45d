package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"turnstile/pkg/admin"
	"turnstile/pkg/session"
)

// The states of a destination, in JSON.
const (
	statePaused   = "paused"
	stateDisabled = "disabled"
	stateEnabled  = "enabled"
)

// byOperator is why a destination is paused that an operator paused.
const byOperator = "paused by an operator"

// listedDestination is the state of a destination.
type listedDestination struct {
	Destination string     `json:"destination"`
	State       string     `json:"state"`
	Why         string     `json:"why,omitempty"`
	Since       *time.Time `json:"since,omitempty"`
	Until       *time.Time `json:"until,omitempty"`
}

func listedState(name string, s session.DestinationState) listedDestination {
	l := listedDestination{Destination: name, State: stateEnabled, Why: s.Why}
	at := time.UnixMilli(s.At).UTC()
	switch {
	case s.Disabled:
		l.State = stateDisabled
		if s.At > 0 {
			l.Since = &at
		}
	case s.Paused:
		l.State = statePaused
		if s.At > 0 {
			l.Until = &at
		}
	}
	return l
}

// text is the state in words.
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

func (p *program) outboxPauseCommand() *cobra.Command {
	return p.destinationCommand("pause", "Send nothing to a destination until it is enabled", session.DestinationState{Paused: true, Why: byOperator})
}

func (p *program) outboxEnableCommand() *cobra.Command {
	return p.destinationCommand("enable", "Send to a paused or disabled destination again", session.DestinationState{})
}

// destinationCommand is a command that sets the state of a destination.
func (p *program) destinationCommand(name, short string, s session.DestinationState) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: name + " DESTINATION", Short: short, Long: outboxHelp,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("outbox %s wants one DESTINATION, and was given %d", name, len(args))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			return p.setDestination(c.Context(), flagged(c), args[0], s, asJSON)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	addSettings(c, "REDIS_URL")
	return c
}

// setDestination sets the state of a destination, for all deliverers.
func (p *program) setDestination(ctx context.Context, flags map[string]string, name string, s session.DestinationState, asJSON bool) error {
	if err := session.ValidateDestination(name); err != nil {
		return err
	}
	var before session.DestinationState
	err := p.withAdmin(ctx, flags, func(client *admin.Client) error {
		states, err := client.Destinations(ctx)
		if err != nil {
			return err
		}
		before = states[name]
		return client.SetDestination(ctx, name, s)
	})
	switch {
	case err != nil:
		return err
	case asJSON:
		return p.printJSON(listedState(name, s))
	case s.Paused:
		return p.say("Destination %s is paused. Its deliveries wait until: worker outbox enable %[1]s", name)
	case before == session.DestinationState{}:
		return p.say("Destination %s was neither paused nor disabled.", name)
	}
	return p.say("Destination %s is enabled. Its deliveries go on within about two seconds.", name)
}
