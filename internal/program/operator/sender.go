package operator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"turnstile/pkg/admin"
	"turnstile/pkg/session"
)

const exportHelp = `export prints what is stored of one person: a sender as in meta.sender, which is TOKEN or
TOKEN/USER for messages over HTTP. TOKEN alone means its messages without "as".

For each session with messages of the sender it prints one line, then a line for each entry
of its transcripts and each message that waits, runs or has ended, as JSON:
  {"session","shared","workspace"?,"workspaces"?,"agent_state"?}
  {"session","transcript","entry":{as in show}}
  {"session","state","message":{"id","text","meta","attachments"},"outcome"?}
A session is shared if others have written in it, too. Of such a session only the sender's
own texts are printed. Of all others everything is: replies, tools and outcomes as well.

workspace is the session's directory on this machine, if TURNSTILE_WORKSPACE_DIR and
TURNSTILE_AGENTS_FILE are set as for the worker; workspaces has all of them if there are
several, as after /agent. agent_state is what the agent keeps: usually the ID of its own
session, with files in the worker's HOME. They are not printed, nor are events and
deliveries, which repeat the texts.

A session that cannot be read, because a key has a wrong type, is left out and named on
stderr. It may have messages of the sender.

It reads every message and transcript in Redis. If nothing of the sender is found, that is
an error with exit code 1.`

const forgetSenderHelp = `

forget --sender SENDER deletes every session in which only this sender has written, as
forget SESSION does, and lists the others: nothing is cut out of a shared transcript. The
sender is that of worker export, which shows beforehand what there is. It deletes no session
that is running or gets a message meanwhile, and none with undelivered outcomes without
--undelivered: it lists them, and ends with exit code 3. Run it again for the rest, also
after Ctrl-C (exit code 130). Each line has a session and its status: erased, shared, running
(also: used meanwhile), undelivered or broken (export). With --json it is an object:
  {"session","shared","status":"erased|shared|running|undelivered|broken","workspace"?,
   "workspaces"?,"agent_state"?,"broken"?}`

func (p *Program) exportCommand() *cobra.Command {
	var sender string
	c := &cobra.Command{
		Use: "export --sender SENDER", Short: "Print everything of one sender as JSON", Long: exportHelp,
		Args: func(c *cobra.Command, args []string) error {
			if sender == "" || len(args) > 0 {
				return errors.New("export takes --sender SENDER and nothing else")
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error { return p.export(c.Context(), flagged(c), sender) },
	}
	c.Flags().StringVar(&sender, "sender", "", "whose messages: TOKEN or TOKEN/USER")
	addSettings(c, "REDIS_URL", "TURNSTILE_WORKSPACE_DIR", "TURNSTILE_AGENTS_FILE")
	return c
}

// senderLine is a session of a sender.
type senderLine struct {
	Session string `json:"session"`
	Shared  bool   `json:"shared"`
	Status  string `json:"status,omitempty"` // of forget
	Broken  string `json:"broken,omitempty"` // of forget: why nothing of it could be read
	directories
	AgentState json.RawMessage `json:"agent_state,omitempty"`
}

// eachOf visits the sessions of a sender, with the roots of the sessions' directories. An unknown sender is an error.
func (p *Program) eachOf(ctx context.Context, flags map[string]string, sender string, visit func(s *admin.SenderSession, line senderLine, roots []string) error) error {
	roots, err := p.workspaces(flags)
	if err != nil {
		return err
	}
	found := false
	err = p.withAdmin(ctx, flags, func(client *admin.Client, _ redis.UniversalClient) error {
		for s, err := range client.SessionsOf(ctx, sender) {
			found = found || err == nil
			switch {
			case errors.Is(err, session.ErrBroken):
				err = visit(s, senderLine{Session: s.Session, Status: "broken", Broken: err.Error()}, roots)
			case err == nil:
				err = visit(s, senderLine{Session: s.Session, Shared: s.Shared, directories: findDirectories(roots, s.Session), AgentState: s.AgentState}, roots)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil && !found {
		return fmt.Errorf("no session has messages of %.200q", sender)
	}
	return err
}

func (p *Program) export(ctx context.Context, flags map[string]string, sender string) error {
	return p.eachOf(ctx, flags, sender, func(s *admin.SenderSession, line senderLine, _ []string) error {
		if line.Broken != "" { // it may be somebody else's: the person must not read its key
			p.Complain("left out: " + line.Broken + brokenHint)
			return nil
		}
		err := p.printJSON(line)
		for d, failed := range s.Data(ctx) {
			if err = errors.Join(err, failed); err != nil {
				break
			}
			if d.Outcome != nil {
				d.Outcome.Detail = "" // it is for operators
			}
			err = p.printJSON(d)
		}
		return err
	})
}

var (
	errNotErased       = errors.New("refused")
	errForgetInterrupt = errors.New("interrupted: what was deleted is gone; run it again for the rest")
)

// forgetSender erases the sessions of a sender that nobody else has written in.
func (p *Program) forgetSender(ctx context.Context, flags map[string]string, sender string, asJSON, undelivered bool) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	var options []admin.EraseOption
	if undelivered {
		options = append(options, admin.EraseUndelivered())
	}
	number := map[string]int{} // by status
	err := p.eachOf(ctx, flags, sender, func(s *admin.SenderSession, line senderLine, roots []string) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if line.Broken != "" {
			number["broken"]++
			if asJSON {
				return p.printJSON(line)
			}
			return p.say("%s: broken, %s", s.Session, line.Broken+brokenHint)
		}
		switch err := s.Erase(context.WithoutCancel(ctx), options...); { // and then its directory
		case s.Shared:
			line.Status = "shared"
		case errors.Is(err, session.ErrBusy):
			line.Status = "running"
		case errors.Is(err, session.ErrUndelivered):
			line.Status = "undelivered"
		case err != nil:
			return err
		default:
			line.Status = "erased"
			if line.directories, err = removeDirectories(roots, s.Session); err != nil {
				return err
			}
		}
		number[line.Status]++
		if asJSON {
			return p.printJSON(line)
		}
		text := s.Session + ": " + line.Status
		if line.Workspace != "" {
			text += ", directory " + line.directories.String()
		}
		if len(line.AgentState) > 0 {
			text += ", agent state " + string(line.AgentState)
		}
		return p.say("%s", text)
	})
	if err == nil && !asJSON {
		err = p.say("%s erased, %d shared. Directories on other machines, agents' files in the worker's HOME, logs and backups are kept.",
			count(number["erased"], "session is", "sessions are"), number["shared"])
	}
	switch left := number["running"] + number["undelivered"] + number["broken"]; {
	case err != nil && ctx.Err() != nil:
		return errForgetInterrupt
	case err == nil && left > 0:
		return fmt.Errorf("%w: %s left; run it again, for undelivered outcomes with --undelivered", errNotErased, count(left, "session is", "sessions are"))
	}
	return err
}
