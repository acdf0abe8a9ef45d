package turnstile

import (
	"context"
	"fmt"

	"turnstile/internal/protocol/record"
	"turnstile/pkg/session"
)

// Info reads the session's state in one round trip. An unknown session is idle and empty.
func (s *Session) Info(ctx context.Context) (session.Info, error) {
	if err := session.ValidateKey(s.key); err != nil {
		return session.Info{}, err
	}
	infos, err := record.Infos(ctx, s.c.rdb, []string{s.key})
	if err != nil {
		return session.Info{}, fmt.Errorf("read session %s: %w", s.key, err)
	}
	return infos[0], nil
}
