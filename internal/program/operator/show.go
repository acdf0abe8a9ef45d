package operator

import (
	"context"
	"fmt"

	"turnstile"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/http/gateway"
	"turnstile/pkg/admin"
	"turnstile/pkg/session"
)

// shown is a session as show prints it.
type shown struct {
	gateway.SessionView
	Transcript []session.Entry `json:"transcript"`

	idle    bool   // no worker is running
	program string // whose commands are named
}

// show prints one session, and with follow the further events of its turn.
func (p *Program) show(ctx context.Context, flags map[string]string, key string, asJSON, follow bool) error {
	if err := session.ValidateKey(key); err != nil {
		return err
	}
	return p.withRedis(ctx, flags, func(rdb redis.UniversalClient) error {
		client := admin.NewClient(rdb)
		s, err := look(ctx, turnstile.NewClient(rdb).Session(key), client.Session(key))
		if err != nil {
			return err
		}
		if follow {
			s.Events = nil // followTurn prints them
		}
		if asJSON {
			err = p.printJSON(s)
		} else {
			if s.State == admin.StateWaiting {
				s.idle, _ = hasNoWorker(ctx, rdb)
			}
			s.program = p.Name
			err = s.print(p.stdout)
		}
		if err != nil || !follow {
			return err
		}
		return p.followTurn(ctx, rdb, s, asJSON)
	})
}

// look reads a session part by part, so one part may be newer than another.
func look(ctx context.Context, chat *turnstile.Session, operated *admin.Session) (shown, error) {
	view, err := gateway.ReadSession(ctx, operated)
	if err != nil {
		return shown{}, err
	}
	transcript, err := chat.Transcript(ctx, turnstile.TranscriptQuery{ID: view.TranscriptID, Limit: session.NoLimit})
	return shown{SessionView: view, Transcript: append([]session.Entry{}, transcript.Entries...)}, err
}

func unknownError(key string) error { return fmt.Errorf("session %s %w", key, gateway.ErrUnknown) }

// checkKnown returns an error if a session is unknown.
func checkKnown(ctx context.Context, s *admin.Session) error {
	info, err := s.Info(ctx)
	if err == nil && !gateway.Known(info.Info) {
		return unknownError(info.Session)
	}
	return err
}
