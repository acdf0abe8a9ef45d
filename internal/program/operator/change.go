package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"turnstile/pkg/admin"
	"turnstile/pkg/session"
)

// noun is a kind of thing in sessions that an operator changes, such as dead letters.
type noun struct {
	command      string // the one that lists them
	one, several string
	state        admin.State // of the sessions that have any
}

// chosen returns the named sessions, or all that have such a thing.
func chosen(ctx context.Context, client *admin.Client, of noun, sessions []string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if len(sessions) > 0 {
			yield(sessions[0], nil)
			return
		}
		for s, err := range client.Sessions(ctx, admin.Query{State: of.state}) {
			if !yield(s.Session, err) {
				return
			}
		}
	}
}

// brokenHint follows the error of a session that cannot be read.
const brokenHint = " (docs/runbook.md#a-session-is-broken)"

// passOver complains about an error that concerns one session of several, and reports whether it is one.
func (p *Program) passOver(err error) bool {
	if !errors.Is(err, session.ErrBroken) {
		return false
	}
	p.Complain(fmt.Sprintf("left out: %v%s", err, brokenHint))
	return true
}

// change is an operation on the things of a session.
type change struct {
	noun
	short, long     string                                                                                  // its help
	ids             bool                                                                                    // whether message IDs may choose some
	field, done, of string                                                                                  // in JSON, in a sentence, and the kind of things
	do              func(ctx context.Context, c *admin.Client, key string, ids []string) (n int, err error) // ids: some, or admin.All
}

// changeCommand is a command that changes the things of one session, or of all.
func (p *Program) changeCommand(name, usage string, ch change) *cobra.Command {
	var asJSON, all bool
	c := &cobra.Command{
		Use: name + " " + usage, Short: ch.short, Long: ch.long,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case all && len(args) > 0:
				return fmt.Errorf("%s %s: both --all and a SESSION: use one of them", ch.command, name)
			case !all && len(args) == 0:
				return fmt.Errorf("%s %s wants a SESSION, or --all for those of all sessions", ch.command, name)
			case !ch.ids && len(args) > 1:
				return fmt.Errorf("%s %s takes one SESSION, but got %d", ch.command, name, len(args))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if all {
				return p.changeAll(c.Context(), flagged(c), ch, asJSON)
			}
			return p.changeOne(c.Context(), flagged(c), ch, args[0], args[1:], asJSON)
		},
	}
	c.Flags().BoolVar(&all, "all", false, "those of all sessions")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line")
	addSettings(c, "REDIS_URL")
	return c
}

// changeOne changes the things of a session.
func (p *Program) changeOne(ctx context.Context, flags map[string]string, ch change, key string, ids []string, asJSON bool) error {
	if err := session.ValidateKey(key); err != nil {
		return err
	}
	for _, id := range ids {
		if err := session.ValidateID(id); err != nil {
			return err
		}
	}
	var n int
	err := p.withAdmin(ctx, flags, func(client *admin.Client, _ redis.UniversalClient) (err error) {
		some := ids
		if len(ids) == 0 {
			some = []string{admin.All}
		}
		if n, err = ch.do(ctx, client, key, some); n == 0 && err == nil {
			err = checkKnown(ctx, client.Session(key))
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case asJSON:
		err = p.printJSON(map[string]any{"session": key, ch.field: n})
	case n == 0 && len(ids) == 0:
		err = p.say("Session %s has no %s.", key, ch.of)
	case n > 0:
		err = p.say("%s: %s %s.", key, count(n, ch.one, ch.several), ch.done)
	}
	if missing := len(ids) - n; err == nil && missing > 0 {
		which := fmt.Sprintf("%d of the %d ids are", missing, len(ids))
		switch {
		case len(ids) == 1:
			which = "message " + ids[0] + " is"
		case missing == 1:
			which = fmt.Sprintf("1 of the %d ids is", len(ids))
		}
		return fmt.Errorf("%s not among the %s of session %s", which, ch.of, key)
	}
	return err
}

// changeAll changes the things of all sessions. If it fails, it has printed the changes made
// before.
func (p *Program) changeAll(ctx context.Context, flags map[string]string, ch change, asJSON bool) error {
	total, sessions := 0, 0
	var left error // of the last session that was left out
	err := p.withAdmin(ctx, flags, func(client *admin.Client, _ redis.UniversalClient) error {
		for key, err := range chosen(ctx, client, ch.noun, nil) {
			if err != nil {
				return err
			}
			n, err := ch.do(ctx, client, key, []string{admin.All})
			total += n
			switch {
			case p.passOver(err):
				left = err
				continue
			case err != nil:
				return err
			case n == 0:
				continue
			case asJSON:
				err = p.printJSON(map[string]any{"session": key, ch.field: n})
			default:
				err = p.say("%s: %s %s.", key, count(n, ch.one, ch.several), ch.done)
			}
			if err != nil {
				return err
			}
			sessions++
		}
		return nil
	})
	if err != nil || asJSON {
		return errors.Join(err, left)
	}
	if total == 0 {
		err = p.say("No session has %s.", ch.of)
	} else if sessions > 1 {
		err = p.say("%s of %d sessions %s.", count(total, ch.one, ch.several), sessions, ch.done)
	}
	return cmp.Or(err, left)
}
