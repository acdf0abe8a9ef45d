package operator

import (
	"context"
	"errors"
	"fmt"

	"turnstile"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"turnstile/internal/http/gateway"
	"turnstile/pkg/admin"
	"turnstile/pkg/session"
)

const forgetHelp = `forget deletes everything of a session: waiting messages, results, dead letters, every
transcript, events, title and settings. It does not ask for confirmation, and deletion is
final. The next message begins a new session.

It is refused with exit code 3 while a turn runs in the session: send /stop first, or
wait. An unknown session is an error with exit code 1. A message that is sent
meanwhile is deleted with the rest, or begins a new session.

It is also refused with exit code 3 while messages with a destination have not ended or
outcomes are undelivered, unless --undelivered is given.

It reads every key of the database, to find earlier transcripts.

The session's directories on this machine are deleted, too, if TURNSTILE_WORKSPACE_DIR and
TURNSTILE_AGENTS_FILE are set as for the worker: one beneath each workspace_dir where an
agent of the session has worked. Those on other machines are not.

With --json it prints one object, with the number of deleted things, and the directory;
workspaces has all of them if there are several. Errors are plain text on stderr:
  {"session","entries","pending","scheduled","archived","workspace"?,"workspaces"?}`

func (p *Program) forgetCommand() *cobra.Command {
	var asJSON, undelivered bool
	var sender string
	c := &cobra.Command{
		Use: "forget SESSION | --sender SENDER", Short: "Delete everything of a session, or of a sender", Long: forgetHelp + forgetSenderHelp,
		Args: func(c *cobra.Command, args []string) error {
			if !c.Flags().Changed("sender") {
				return oneSession(c, args)
			}
			if sender == "" || len(args) > 0 {
				return errors.New("forget takes one SESSION or --sender SENDER")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if sender != "" {
				return p.forgetSender(c.Context(), flagged(c), sender, asJSON, undelivered)
			}
			return p.forget(c.Context(), flagged(c), args[0], asJSON, undelivered)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	c.Flags().StringVar(&sender, "sender", "", "delete the sessions of this sender: TOKEN or TOKEN/USER")
	c.Flags().BoolVar(&undelivered, "undelivered", false, "delete outcomes that are not delivered, too")
	addSettings(c, "REDIS_URL", "TURNSTILE_WORKSPACE_DIR", "TURNSTILE_AGENTS_FILE")
	return c
}

// forgotten has the counts and names of an erased session.
type forgotten struct {
	known     bool
	Session   string `json:"session"`
	Entries   int    `json:"entries"` // of the transcript
	Pending   int    `json:"pending"`
	Scheduled int    `json:"scheduled"`
	Archived  int    `json:"archived"`
	directories
}

// forget deletes a session.
func (p *Program) forget(ctx context.Context, flags map[string]string, key string, asJSON, undelivered bool) error {
	if err := session.ValidateKey(key); err != nil {
		return err
	}
	roots, err := p.workspaces(flags) // a mistake deletes nothing
	if err != nil {
		return err
	}
	var f forgotten
	err = p.withRedis(ctx, flags, func(rdb redis.UniversalClient) (err error) {
		f, err = erase(ctx, rdb, key, undelivered)
		return err
	})
	if err != nil {
		return err
	}
	// Only now, since a busy session is refused and needs the directory.
	if f.directories, err = removeDirectories(roots, key); err != nil {
		return err
	}
	if !f.known && f.Workspace == "" {
		return fmt.Errorf("session %s is unknown; any remaining data was deleted", key)
	}
	if asJSON {
		return p.printJSON(f)
	}
	text := fmt.Sprintf("Session %s is forgotten: %s, %s, %d delayed, %s", f.Session,
		count(f.Entries, "transcript entry", "transcript entries"), count(f.Pending, "waiting message", "waiting messages"),
		f.Scheduled, count(f.Archived, "dead letter", "dead letters"))
	if f.Workspace != "" {
		text += ", and " + f.directories.String()
	}
	return p.say("%s.", text)
}

// erase deletes a session, and returns its contents just before.
func erase(ctx context.Context, rdb redis.UniversalClient, key string, undelivered bool) (forgotten, error) {
	chat := turnstile.NewClient(rdb).Session(key)
	info, err := chat.Info(ctx)
	if err != nil {
		return forgotten{}, err
	}
	transcript, err := chat.Transcript(ctx, turnstile.TranscriptQuery{Limit: session.NoLimit})
	if err != nil {
		return forgotten{}, err
	}
	var options []admin.EraseOption
	if undelivered {
		options = append(options, admin.EraseUndelivered())
	}
	if err := admin.NewClient(rdb).Session(key).Erase(ctx, options...); err != nil {
		return forgotten{}, err
	}
	return forgotten{known: gateway.Known(info), Session: key, Entries: len(transcript.Entries), Pending: info.Waiting, Scheduled: info.Delayed, Archived: info.DeadLetters}, nil
}

// count is a number with its noun.
func count(n int, one, several string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, several)
}
