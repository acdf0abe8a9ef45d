package operator

import (
	"context"
	"os/user"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"turnstile/pkg/admin"
)

const auditHelp = `audit lists who has decided, stopped or changed something in a session, the oldest first: the
last 1,000, until 30 days after the newest. It has no texts. BY is a gateway's token, or a
user below it, such as web/alice; of enqueue and worker the operating system's user; "-"
is unknown. DID is allow, always, deny, stop, cancel, undo, retry, new, rerun, queue or
reply_to. WHAT is the question, turn, message, agent, number of messages or setting.

Whoever may send to a session with an own Redis user can write its audit, too.

With --json it prints one object a line, and errors as plain text on stderr:
  {"at","by","did","what"}
where at is a time (RFC 3339).`

func (p *Program) auditCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "audit SESSION", Short: "List who has decided or changed something in a session", Long: auditHelp, Args: oneSession,
		RunE: func(c *cobra.Command, args []string) error { return p.audit(c.Context(), flagged(c), args[0], asJSON) },
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line")
	addSettings(c, "REDIS_URL")
	return c
}

// audited is a line of the audit in JSON.
type audited struct {
	At   time.Time `json:"at"`
	By   string    `json:"by"`
	Did  string    `json:"did"`
	What string    `json:"what"`
}

func (p *Program) audit(ctx context.Context, flags map[string]string, key string, asJSON bool) error {
	var list []admin.AuditEntry
	err := p.withAdmin(ctx, flags, func(client *admin.Client, _ redis.UniversalClient) (err error) {
		list, err = client.Session(key).Audit(ctx)
		return err
	})
	switch {
	case err != nil:
		return err
	case asJSON:
		for _, e := range list {
			if err := p.printJSON(audited{e.At.UTC(), e.By, e.Did, e.What}); err != nil {
				return err
			}
		}
		return nil
	case len(list) == 0:
		return p.say("Nobody has decided or changed anything in session %s in the last 30 days.", key)
	}
	t := p.table()
	t.row("AT", "BY", "DID", "WHAT")
	for _, e := range list {
		t.row(e.At.Format(time.DateTime), orDash(firstLine(e.By)), orDash(firstLine(e.Did)), orDash(firstLine(e.What)))
	}
	return t.end()
}

// userName is the operating system's user, "" if it is unknown.
func userName() string {
	u, err := user.Current()
	if err != nil {
		return ""
	}
	return u.Username
}
