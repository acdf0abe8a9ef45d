package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"turnstile/pkg/admin"
	"turnstile/pkg/session"
)

const deadHelp = `dead lists, reruns and deletes dead letters: messages that failed, were stopped,
expired, were dropped from a full line, or whose turn a newer message rolled back.
asynqmon shows them under Archived.

  dead [list|ls] [SESSION]        lists those of a session, oldest first, or of
                                  all, session by session
  dead rerun SESSION | --all      puts those that failed or were stopped back in line,
                                  as /resume does; the others stay
  dead drop SESSION [ID...]       deletes those of a session, or only these
  dead drop --all                 deletes all

Deletion is final. An unknown session is an error with exit code 1. With --json there is
one object a line, and errors are plain text on stderr:
  {"session","id","status","error","text","at","age_ms"}   list
  {"session","rerun"}  {"session","dropped"}               how many, of each session`

func (p *program) deadCommand() *cobra.Command {
	c := p.deadListCommand("dead")
	c.Use, c.Short, c.Long = "dead [list|rerun|drop] [SESSION]", "List, rerun or delete dead letters", deadHelp
	list := p.deadListCommand("list")
	list.Aliases = []string{"ls"}
	c.AddCommand(list, p.deadRerunCommand(), p.deadDropCommand())
	return c
}

func (p *program) deadListCommand(name string) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: name + " [SESSION]", Short: "List the dead letters of a session, or of all", Long: deadHelp,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return fmt.Errorf("dead list wants one SESSION at most, and was given %d", len(args))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return p.deadList(c.Context(), flagged(c), args, asJSON) },
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line")
	addSettings(c, "REDIS_URL")
	return c
}

func (p *program) deadRerunCommand() *cobra.Command {
	return p.deadChange("rerun", "SESSION | --all", "Put dead letters that failed or were stopped back in line", 1, change{
		field: "rerun", done: "put back in line", of: "dead letters that failed or were stopped",
		do: func(ctx context.Context, c *admin.Client, key string, _ []string) (int, error) {
			return c.Rerun(ctx, key)
		},
	})
}

func (p *program) deadDropCommand() *cobra.Command {
	return p.deadChange("drop", "SESSION [ID...] | --all", "Delete dead letters", -1, change{
		field: "dropped", done: "deleted", of: "dead letters",
		do: func(ctx context.Context, c *admin.Client, key string, ids []string) (int, error) {
			return c.DeleteDeadLetters(ctx, key, ids...)
		},
	})
}

// change is an operation on dead letters.
type change struct {
	field, done, of string // in JSON, in a sentence, and the kind of dead letters
	do              func(ctx context.Context, c *admin.Client, key string, ids []string) (n int, err error)
}

// deadChange is a command that changes the dead letters of one session, or of all.
func (p *program) deadChange(name, usage, short string, most int, ch change) *cobra.Command {
	var asJSON, all bool
	c := &cobra.Command{
		Use: name + " " + usage, Short: short, Long: deadHelp,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case all && len(args) > 0:
				return fmt.Errorf("dead %s: both --all and a SESSION: use one of them", name)
			case !all && len(args) == 0:
				return fmt.Errorf("dead %s wants a SESSION, or --all for those of all sessions", name)
			case most > 0 && len(args) > most:
				return fmt.Errorf("dead %s wants one SESSION, and was given %d", name, len(args))
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

// listedDead is one dead letter in the list.
type listedDead struct {
	Session string         `json:"session"`
	ID      string         `json:"id"`
	Status  session.Status `json:"status"`
	Error   string         `json:"error"`
	Text    string         `json:"text"`
	At      time.Time      `json:"at"`
	AgeMS   int64          `json:"age_ms"`
}

// deadList lists the dead letters of a session, or of all.
func (p *program) deadList(ctx context.Context, flags map[string]string, sessions []string, asJSON bool) error {
	if len(sessions) > 0 {
		if err := session.ValidateKey(sessions[0]); err != nil {
			return err
		}
	}
	t := p.table()
	n := 0
	show := func(d admin.DeadLetter) error {
		if n++; asJSON {
			return p.printJSON(listedDead{d.Session, d.ID, d.Outcome.Status, d.Outcome.Error, d.Text, d.At.UTC(), d.Age.Milliseconds()})
		}
		if n == 1 {
			t.row("SESSION", "ID", "STATUS", "AGE", "ERROR", "TEXT")
		}
		why := strings.TrimPrefix(d.Outcome.Error, string(d.Outcome.Status)+": ")
		t.row(d.Session, firstLine(d.ID), d.Outcome.Status, age(d.Age), orDash(firstLine(why)), orDash(firstLine(d.Text)))
		return t.err
	}
	err := p.withAdmin(ctx, flags, func(client *admin.Client) error {
		for key, err := range withDead(ctx, client, sessions) {
			if err != nil {
				return err
			}
			for d, err := range client.DeadLetters(ctx, key) {
				if err == nil {
					err = show(d)
				}
				if err != nil {
					return err
				}
			}
		}
		if n == 0 && len(sessions) > 0 {
			return checkKnown(ctx, client, sessions[0])
		}
		return nil
	})
	if n == 0 && err == nil && !asJSON {
		return p.say("No dead letters.")
	}
	return errors.Join(t.end(), err)
}

// withDead are the named sessions, or all that have dead letters.
func withDead(ctx context.Context, client *admin.Client, sessions []string) iter.Seq2[string, error] {
	if len(sessions) == 0 {
		return client.SessionsWithDeadLetters(ctx)
	}
	return func(yield func(string, error) bool) { yield(sessions[0], nil) }
}

// changeOne changes the dead letters of a session.
func (p *program) changeOne(ctx context.Context, flags map[string]string, ch change, key string, ids []string, asJSON bool) error {
	if err := session.ValidateKey(key); err != nil {
		return err
	}
	for _, id := range ids {
		if err := session.ValidateID(id); err != nil {
			return err
		}
	}
	var n int
	err := p.withAdmin(ctx, flags, func(client *admin.Client) (err error) {
		if n, err = ch.do(ctx, client, key, ids); n == 0 && err == nil {
			err = checkKnown(ctx, client, key)
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
		err = p.say("%s: %s %s.", key, count(n, "dead letter", "dead letters"), ch.done)
	}
	if missing := len(ids) - n; err == nil && missing > 0 {
		which := fmt.Sprintf("%d of the %d ids are", missing, len(ids))
		switch {
		case len(ids) == 1:
			which = "message " + ids[0] + " is"
		case missing == 1:
			which = fmt.Sprintf("1 of the %d ids is", len(ids))
		}
		return fmt.Errorf("%s not among the dead letters of session %s", which, key)
	}
	return err
}

// changeAll changes the dead letters of all sessions. Before an error it has printed what was done.
func (p *program) changeAll(ctx context.Context, flags map[string]string, ch change, asJSON bool) error {
	total, sessions := 0, 0
	err := p.withAdmin(ctx, flags, func(client *admin.Client) error {
		for key, err := range client.SessionsWithDeadLetters(ctx) {
			if err != nil {
				return err
			}
			n, err := ch.do(ctx, client, key, nil)
			total += n
			switch {
			case err != nil:
				return err
			case n == 0:
				continue
			case asJSON:
				err = p.printJSON(map[string]any{"session": key, ch.field: n})
			default:
				err = p.say("%s: %s %s.", key, count(n, "dead letter", "dead letters"), ch.done)
			}
			if err != nil {
				return err
			}
			sessions++
		}
		return nil
	})
	if err != nil || asJSON {
		return err
	}
	if total == 0 {
		err = p.say("No session has %s.", ch.of)
	} else if sessions > 1 {
		err = p.say("%s of %d sessions %s.", count(total, "dead letter", "dead letters"), sessions, ch.done)
	}
	return err
}
