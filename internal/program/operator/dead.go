package operator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"turnstile/internal/http/gateway"
	"turnstile/pkg/admin"
	"turnstile/pkg/session"
)

const deadHelp = `dead lists, reruns and deletes dead letters: messages that failed, were stopped,
expired, were dropped from a full queue, or were rolled back by a newer message.
asynqmon shows them under Archived.

  dead [list|ls] [SESSION]        lists those of a session, oldest first, or of
                                  all, session by session
  dead rerun SESSION [ID...]      requeues those that failed or were stopped,
                                  as /resume does, or only these; the others stay
  dead rerun --all                requeues those of all sessions
  dead drop SESSION [ID...]       deletes those of a session, or only these
  dead drop --all                 deletes all

Deletion is final. An unknown session is an error with exit code 1. With --json there is
one object a line, and errors are plain text on stderr:
  {"session","id","status","error","text","from"?,"at","age_ms"}   list; from: its sender
  {"session","rerun"}  {"session","dropped"}               how many, of each session`

func (p *Program) deadCommand() *cobra.Command {
	c := p.deadListCommand("dead")
	c.Use, c.Short, c.Long = "dead [list|rerun|drop] [SESSION]", "List, rerun or delete dead letters", deadHelp
	list := p.deadListCommand("list")
	list.Aliases = []string{"ls"}
	c.AddCommand(list, p.deadRerunCommand(), p.deadDropCommand())
	return c
}

func (p *Program) deadListCommand(name string) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: name + " [SESSION]", Short: "List the dead letters of a session, or of all", Long: deadHelp,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return fmt.Errorf("dead list takes at most one SESSION, but got %d", len(args))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return p.deadList(c.Context(), flagged(c), args, asJSON) },
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line")
	addSettings(c, "REDIS_URL")
	return c
}

var deadLetters = noun{
	command: "dead", one: "dead letter", several: "dead letters",
	state: admin.StateDeadLetters,
}

func (p *Program) deadRerunCommand() *cobra.Command {
	return p.changeCommand("rerun", "SESSION [ID...] | --all", change{
		noun: deadLetters, short: "Requeue dead letters that failed or were stopped", long: deadHelp, ids: true,
		field: "rerun", done: "requeued", of: "dead letters that failed or were stopped",
		do: func(ctx context.Context, c *admin.Client, key string, ids []string) (int, error) {
			return c.Session(key).As(userName()).Rerun(ctx, ids...)
		},
	})
}

func (p *Program) deadDropCommand() *cobra.Command {
	return p.changeCommand("drop", "SESSION [ID...] | --all", change{
		noun: deadLetters, short: "Delete dead letters", long: deadHelp, ids: true,
		field: "dropped", done: "deleted", of: "dead letters",
		do: func(ctx context.Context, c *admin.Client, key string, ids []string) (int, error) {
			return c.Session(key).DeleteDeadLetters(ctx, ids...)
		},
	})
}

// listedDead is one dead letter in the list.
type listedDead struct {
	Session string         `json:"session"`
	ID      string         `json:"id"`
	Status  session.Status `json:"status"`
	Error   string         `json:"error"`
	Text    string         `json:"text"`
	From    string         `json:"from,omitempty"` // its sender
	At      time.Time      `json:"at"`
	AgeMS   int64          `json:"age_ms"`
}

// deadList lists the dead letters of a session, or of all.
func (p *Program) deadList(ctx context.Context, flags map[string]string, sessions []string, asJSON bool) error {
	if len(sessions) > 0 {
		if err := session.ValidateKey(sessions[0]); err != nil {
			return err
		}
	}
	t := p.table()
	n := 0
	show := func(d admin.DeadLetter) error {
		if n++; asJSON {
			return p.printJSON(listedDead{d.Session, d.ID, d.Outcome.Status, d.Outcome.Why(), d.Text, gateway.Who(d.Meta), d.At.UTC(), d.Age.Milliseconds()})
		}
		if n == 1 {
			t.row("SESSION", "ID", "STATUS", "AGE", "ERROR", "TEXT")
		}
		why := strings.TrimPrefix(d.Outcome.Why(), string(d.Outcome.Status)+": ")
		text := d.Text
		if who := gateway.Who(d.Meta); who != "" {
			text = who + ": " + text
		}
		t.row(d.Session, firstLine(d.ID), d.Outcome.Status, age(d.Age), orDash(firstLine(why)), orDash(firstLine(text)))
		return t.err
	}
	err := p.withRedis(ctx, flags, func(rdb redis.UniversalClient) error {
		client := admin.NewClient(rdb)
		for key, err := range chosen(ctx, client, deadLetters, sessions) {
			if err != nil {
				return err
			}
			for d, err := range client.Session(key).DeadLetters(ctx) {
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
		return p.say("No dead letters.")
	}
	return errors.Join(t.end(), err)
}
