package operator

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/internal/chat/receipt"
	"turnstile/internal/chat/terminal"
	"turnstile/internal/program/daemon"
	"turnstile/internal/text/printable"
	"turnstile/pkg/admin"
	"turnstile/pkg/session"
)

// errInterrupted is the error of a command that Ctrl-C ended.
var errInterrupted = errors.New("interrupted: the session is no longer followed, and its turn continues")

// followTurn prints the events of the running turn, or of the next one if none runs yet, until its
// message ends.
func (p *Program) followTurn(ctx context.Context, rdb redis.UniversalClient, s shown, asJSON bool) error {
	ctx, stop := signal.NotifyContext(ctx, daemon.Heeded(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)...)
	defer stop()
	context.AfterFunc(ctx, stop)                               // a second Ctrl-C ends the process at once
	defer context.AfterFunc(ctx, func() { _ = rdb.Close() })() // ends a read that blocks
	id, err := s.followed(ctx, admin.NewClient(rdb))
	if err != nil {
		return err
	}
	if id == "" {
		p.Complain(fmt.Sprintf("session %s is not followed: nothing runs, nothing waits for a slot", s.Session))
		return nil
	}
	end, err := p.tell(ctx, turnstile.NewClient(rdb), s.Session, id, asJSON)
	switch {
	case err != nil && ctx.Err() != nil:
		return errInterrupted
	case errors.Is(err, session.ErrNotFound):
		return fmt.Errorf("follow message %s: its outcome is unknown: its result expired, or it was deleted", id)
	case err != nil:
		return fmt.Errorf("follow message %s: %w", id, err)
	}
	how := terminal.Ending(end)
	p.Complain(fmt.Sprintf("the turn ended: message %s %s", id, how))
	return nil
}

// followed is the message to follow, or "" if there is none.
func (s shown) followed(ctx context.Context, client *admin.Client) (id string, err error) {
	if len(s.Messages) > 0 {
		return s.Messages[0], nil
	}
	for m, err := range client.Session(s.Session).Queue(ctx) {
		if err != nil || m.State == session.MessagePending || m.State == session.MessageCollected {
			return m.ID, err
		}
		break
	}
	return "", nil
}

// tell prints the events of a message's turns, earlier ones included, until the message ends.
func (p *Program) tell(ctx context.Context, client *turnstile.Client, key, id string, asJSON bool) (session.Outcome, error) {
	if asJSON {
		end, err := receipt.Follow(ctx, client.Session(key), id, "", func(e session.Event) error {
			if e.Type == session.EventTurnEnded {
				return nil // its outcome is printed
			}
			return p.printJSON(struct {
				Session string `json:"session"`
				ID      string `json:"id"`
				EventID string `json:"event_id,omitempty"`
				session.Event
			}{key, id, e.ID, e})
		})
		if err == nil {
			err = p.printJSON(end)
		}
		return end, err
	}
	if _, err := fmt.Fprintf(p.stdout, "\nfollowing message %s\n", printable.Line(id)); err != nil {
		return session.Outcome{}, err
	}
	screen := terminal.NewSplitScreen(p.Raw.Stdout, p.Raw.Stderr, p.Environ)
	call := "enqueue -s " + terminal.Quoted(key)
	t := terminal.Teller{Story: terminal.Story{Message: printable.Line(id), Allow: call + " /approve", Deny: call + " /deny"}, Screen: screen}
	end, err := receipt.Follow(ctx, client.Session(key), id, "", receipt.Shown(t.See))
	if err != nil {
		t.Leave()
		return end, err
	}
	t.End(end)
	return end, nil
}
