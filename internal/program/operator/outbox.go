package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"turnstile/internal/protocol/wire"
	"turnstile/pkg/admin"
	"turnstile/pkg/session"
)

const outboxHelp = `outbox lists the deliveries that wait, and those that were given up: outcomes of messages
and questions for destinations (enqueue --reply-to). docs/webhooks.md says how they are
delivered.

  outbox [list|ls] [SESSION]      lists those of a session, or of all, session by
                                  session: for each destination in order, then those
                                  that were given up
  outbox redrive SESSION | --all  requeues those that were given up; --to chooses
                                  a destination's
  outbox drop SESSION | --all     deletes those that were given up; --to as above
  outbox pause DESTINATION        deliverers send nothing to it until it is enabled
  outbox enable DESTINATION       ends that, or the state after a response 410:
                                  deliveries continue within about two seconds

STATE is one of
  waits        it is the next for its destination, or after one
  again in 5s  its last attempt failed, for the reason in ERROR
  paused       its destination is paused
  disabled     its destination responded with 410
  given up     it was refused too often or is too old: redrive or drop it

Destinations that are paused or disabled come first, with the reason. Redis does not know
which destinations exist: pause takes any name. Deletion is final. An unknown session is an
error with exit code 1. With --json there is one object a line, and errors are plain text
on stderr:
  {"destination","state":"paused|disabled|enabled","why"?,"since"?,"until"?}
        list, pause, enable; paused without until: until an operator enables it
  {"session","destination","id","sequence","type","messages","at","age_ms",
   "state":"waiting|retrying|paused|disabled|undelivered","attempts","next_at"?,"error"}
        list; id is the webhook-id
  {"session","redriven"}  {"session","dropped"}   how many, of each session`

var outgoing = noun{
	command: "outbox", one: "delivery", several: "deliveries",
	state: admin.StateUndelivered,
}

func (p *Program) outboxCommand() *cobra.Command {
	c := p.outboxListCommand("outbox")
	c.Use, c.Short = "outbox [list|redrive|drop|pause|enable] [SESSION|DESTINATION]", "List, redrive or delete deliveries, and pause destinations"
	list := p.outboxListCommand("list")
	list.Aliases = []string{"ls"}
	c.AddCommand(list, p.outboxRedriveCommand(), p.outboxDropCommand(), p.outboxPauseCommand(), p.outboxEnableCommand())
	return c
}

func (p *Program) outboxListCommand(name string) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: name + " [SESSION]", Short: "List the deliveries of a session, or of all", Long: outboxHelp,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return fmt.Errorf("outbox list takes at most one SESSION, but got %d", len(args))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			return p.outboxList(c.Context(), flagged(c), args, asJSON)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line")
	addSettings(c, "REDIS_URL")
	return c
}

func (p *Program) outboxRedriveCommand() *cobra.Command {
	var to string
	return ofDestination(&to, p.changeCommand("redrive", "SESSION | --all", change{
		noun: outgoing, short: "Requeue deliveries that were given up", long: outboxHelp,
		field: "redriven", done: "requeued", of: "deliveries that were given up",
		do: func(ctx context.Context, c *admin.Client, key string, _ []string) (int, error) {
			return c.Session(key).Redrive(ctx, cmp.Or(to, admin.All))
		},
	}))
}

func (p *Program) outboxDropCommand() *cobra.Command {
	var to string
	return ofDestination(&to, p.changeCommand("drop", "SESSION | --all", change{
		noun: outgoing, short: "Delete deliveries that were given up", long: outboxHelp,
		field: "dropped", done: "deleted", of: "deliveries that were given up",
		do: func(ctx context.Context, c *admin.Client, key string, _ []string) (int, error) {
			return c.Session(key).DeleteUndelivered(ctx, cmp.Or(to, admin.All))
		},
	}))
}

// ofDestination gives a command the flag --to.
func ofDestination(to *string, c *cobra.Command) *cobra.Command {
	c.Flags().StringVar(to, "to", "", "only those for this `DESTINATION`")
	c.PreRunE = func(c *cobra.Command, _ []string) error {
		if !c.Flags().Changed("to") {
			return nil
		}
		return wire.ValidateDestination(*to)
	}
	return c
}

// listedDelivery is one delivery in the list.
type listedDelivery struct {
	Session     string     `json:"session"`
	Destination string     `json:"destination"`
	ID          string     `json:"id"`
	Sequence    int64      `json:"sequence"`
	Type        string     `json:"type"`
	Messages    []string   `json:"messages"`
	At          time.Time  `json:"at"`
	AgeMS       int64      `json:"age_ms"`
	State       string     `json:"state"`
	Attempts    int        `json:"attempts"`
	NextAt      *time.Time `json:"next_at,omitempty"`
	Error       string     `json:"error"`
}

// deliveryOf is a delivery at the time now, by this machine's clock.
func deliveryOf(d admin.Delivery, to admin.Destination, now time.Time) listedDelivery {
	l := listedDelivery{
		Session: d.Session, Destination: d.Destination, ID: d.ID, Sequence: d.Sequence, Type: d.Type, Messages: append([]string{}, d.Messages...),
		At: d.At.UTC(), AgeMS: max(now.Sub(d.At), 0).Milliseconds(), State: "waiting", Attempts: d.Attempts, Error: d.Error,
	}
	if at := d.NextAt.UTC(); !d.NextAt.IsZero() {
		l.NextAt = &at
	}
	switch {
	case d.GivenUp:
		l.State = "undelivered"
	case to.Disabled:
		l.State = stateDisabled
	case to.Paused && (to.RetryAt.IsZero() || now.Before(to.RetryAt)):
		l.State = statePaused
	case l.NextAt != nil && now.Before(*l.NextAt):
		l.State = "retrying"
	}
	return l
}

// text is the state as text.
func (l listedDelivery) text(now time.Time) string {
	switch l.State {
	case "waiting":
		return "waits"
	case "retrying":
		return "again in " + age(l.NextAt.Sub(now))
	case "undelivered":
		return "given up"
	}
	return l.State
}

// outboxList lists the destinations without deliveries (paused or disabled), and the deliveries of
// a session, or of all.
func (p *Program) outboxList(ctx context.Context, flags map[string]string, sessions []string, asJSON bool) error {
	if len(sessions) > 0 {
		if err := session.ValidateKey(sessions[0]); err != nil {
			return err
		}
	}
	states := map[string]admin.Destination{}
	t := p.table()
	n := 0
	show := func(d admin.Delivery) error {
		now := time.Now()
		l := deliveryOf(d, states[d.Destination], now)
		if n++; asJSON {
			return p.printJSON(l)
		}
		if n == 1 {
			t.row("SESSION", "DESTINATION", "ID", "TYPE", "MESSAGES", "AGE", "STATE", "ATTEMPTS", "ERROR")
		}
		t.row(l.Session, l.Destination, l.ID, l.Type, orDash(firstLine(strings.Join(l.Messages, ", "))), age(now.Sub(d.At)), l.text(now), l.Attempts, orDash(firstLine(l.Error)))
		if n%tablePage == 0 {
			return t.end()
		}
		return t.err
	}
	err := p.withAdmin(ctx, flags, func(client *admin.Client, _ redis.UniversalClient) error {
		off, err := client.Destinations(ctx)
		if err != nil {
			return err
		}
		for _, d := range off {
			states[d.Name] = d
		}
		if err := p.listDestinations(off, asJSON); err != nil {
			return err
		}
		for key, err := range chosen(ctx, client, outgoing, sessions) {
			if err != nil {
				return err
			}
			for d, err := range client.Session(key).Deliveries(ctx) {
				if err == nil {
					err = show(d)
				}
				if len(sessions) == 0 && p.passOver(err) {
					break
				}
				if err != nil {
					return err
				}
			}
		}
		if n == 0 && len(sessions) > 0 {
			return checkKnown(ctx, client.Session(sessions[0]))
		}
		return nil
	})
	if n == 0 && err == nil && !asJSON {
		return p.say("No deliveries.")
	}
	return errors.Join(t.end(), err)
}

// listDestinations lists the destinations that are paused or disabled, by name.
func (p *Program) listDestinations(off []admin.Destination, asJSON bool) error {
	if len(off) == 0 {
		return nil
	}
	t := p.table()
	if !asJSON {
		t.row("DESTINATION", "STATE", "REASON")
	}
	for _, d := range off {
		l := listedState(d)
		if !asJSON {
			t.row(l.Destination, l.text(time.Now()), orDash(firstLine(l.Why)))
		} else if err := p.printJSON(l); err != nil {
			return err
		}
	}
	if asJSON {
		return nil
	}
	if err := t.end(); err != nil {
		return err
	}
	return p.say("")
}
