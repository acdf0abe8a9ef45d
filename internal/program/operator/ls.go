package operator

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"turnstile/internal/http/gateway"
	"turnstile/pkg/admin"
	"turnstile/pkg/session"
)

const lsHelp = `ls lists the known sessions, also idle ones, the least recently active first.
With PATTERN it lists only those whose whole key matches: * matches any characters,
? for one, [a-z] for one of them. Quote it for the shell.

It reads the sessions page by page and prints each page at once, so a list of any length
takes little memory. A session that is used meanwhile may appear twice.

STATE is as in ps, or idle. ACTIVE is the time since the session was last used, or for how long its turn has run. PENDING
messages wait in the queue, DELAYED ones for a later time.

With --json there is one object a line, and errors are plain text on stderr:
  {"session","session_id","phase","state","paused","suspended","worker","turn","since",
   "until","pending","scheduled","archived","title","agent","needs","broken"?,"active_at",
   "failing"?:[{"destination","count","since"}],"undelivered"?}
where since, until and active_at are times (RFC 3339) or null.`

func (p *Program) lsCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "ls [PATTERN]", Short: "List all sessions, or those whose key matches", Long: lsHelp, Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			pattern := ""
			if len(args) > 0 {
				pattern = args[0]
				if pattern == "" {
					return fmt.Errorf(`%w pattern "": leave it out for all sessions`, session.ErrInvalid)
				}
				if err := (admin.Query{Match: pattern}).Validate(); err != nil {
					return err
				}
			}
			return p.ls(c.Context(), flagged(c), pattern, asJSON)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line")
	addSettings(c, "REDIS_URL")
	return c
}

// tablePage is how many rows share one layout.
const tablePage = 500

// ls lists the sessions with keys that match pattern; "" matches all.
func (p *Program) ls(ctx context.Context, flags map[string]string, pattern string, asJSON bool) error {
	t := p.table()
	n := 0
	asked, idle := false, false // whether a worker runs is read once, if messages wait
	err := p.withAdmin(ctx, flags, func(client *admin.Client, rdb redis.UniversalClient) error {
		for s, err := range client.Sessions(ctx, admin.Query{Match: pattern, OldestFirst: true}) {
			if err != nil {
				return err
			}
			if n++; asJSON {
				err = p.printJSON(gateway.ListedOf(s))
			} else {
				if s.State == admin.StateWaiting && !asked {
					asked = true
					idle, _ = hasNoWorker(ctx, rdb)
				}
				if n == 1 {
					t.row("SESSION", "STATE", "ACTIVE", "PENDING", "DELAYED", "DEAD LETTERS", "TITLE")
				}
				t.row(s.Session, parkedText(stateText(s.State, s.Paused, s.Suspended, idle, cmp.Or(s.Broken, s.Needs)), s.Phase, gateway.EndOf(s.Info), s.Left(), s.Question != nil || s.WaitsFor != "")+failingText(s), lastActive(s), s.Waiting, s.Delayed, s.DeadLetters, orDash(firstLine(s.Title)))
				if n%tablePage == 0 {
					err = t.end()
				}
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	switch {
	case err != nil:
		_ = t.end() // the rows that were read are shown
		return err
	case n == 0 && !asJSON && pattern != "":
		return p.say("No session's key matches %s.", pattern)
	case n == 0 && !asJSON:
		return p.say("No session is known.")
	}
	return t.end()
}

// lastActive is the time since a session was used, by this machine's clock, or for how long its turn has run.
func lastActive(s admin.SessionInfo) string {
	switch {
	case s.Phase != session.PhaseIdle:
		return "for " + age(s.Running)
	case s.LastActive.IsZero():
		return "-"
	}
	return age(max(time.Since(s.LastActive), 0)) + " ago"
}

// failingText follows the state of a session with failed deliveries.
func failingText(s admin.SessionInfo) (text string) {
	for _, f := range s.Failing {
		text += ", " + f.Destination + " does not take " + count(f.Count, "outcome", "outcomes")
	}
	if s.GivenUp > 0 {
		text += ", " + count(s.GivenUp, "delivery", "deliveries") + " given up"
	}
	return text
}
