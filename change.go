package turnstile

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/agents"
	"turnstile/internal/protocol/index"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/wire"
	"turnstile/pkg/session"
)

// index lists a session before its record is written. Without that, Forget would not find the
// record of a session without messages.
func (s *Session) index(ctx context.Context) error {
	now, err := s.c.sender.Now(ctx)
	if err != nil {
		return protocol.Unchanged(err, false)
	}
	_, err = s.c.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		index.Know(ctx, p, now, s.key)
		return nil
	})
	return protocol.Unchanged(err, false)
}

// TranscriptConfig has the settings of one NewTranscript.
type TranscriptConfig struct {
	// Replaces is the ID of the transcript to replace. If another one is current, nothing is changed,
	// so a call may be repeated. Defaults to the current one.
	Replaces string

	// Agent is the name of the new transcript's agent (docs/agents.md). Defaults to the session's.
	Agent string
}

// NewTranscript starts a new transcript, which the next turn uses, and returns the transcript ID that
// is current afterwards. A running turn still ends in the old transcript. Waiting messages stay in the
// queue.
//
// The error wraps session.ErrUnchanged if nothing was changed: also when the request reached Redis
// after ctx's deadline, or more than 10 s late.
func (s *Session) NewTranscript(ctx context.Context, config ...TranscriptConfig) (id string, err error) {
	if err := session.ValidateKey(s.key); err != nil {
		return "", err
	}
	c := only(config)
	if err := agents.ValidateName(c.Agent); c.Agent != "" && err != nil {
		return "", err
	}
	if id, err = s.rotate(ctx, c.Replaces, c.Agent); err != nil {
		return "", fmt.Errorf("begin a new transcript of %s: %w", s.key, protocol.Unchanged(err, false))
	}
	return id, nil
}

func (s *Session) rotate(ctx context.Context, old, agent string) (string, error) {
	_, until, err := s.giveUpAt(ctx)
	if err != nil {
		return "", err
	}
	if old == "" { // a session that has an ID has a record, and is listed
		if old, err = s.c.rdb.HGet(ctx, rediskey.For(s.key).Record(), "session_id").Result(); err != nil && !errors.Is(err, redis.Nil) {
			return "", err
		}
		if err := s.index(ctx); err != nil {
			return "", err
		}
	}
	now, err := protocol.Rotate{Session: s.key, Old: old, Until: until, Agent: agent, By: s.user}.Do(ctx, s.c.rdb)
	switch {
	case err == nil && now.Late:
		err = errLate
	case now.Wake:
		s.wake(ctx)
	}
	return now.ID, err
}

// SetTitle sets the title of the current transcript. No agent replaces it. An empty title removes
// it. The error wraps session.ErrInvalid if the session key is wrong or the title is not one line
// of at most 200 characters, and session.ErrUnchanged if nothing was changed.
func (s *Session) SetTitle(ctx context.Context, title string) error {
	if err := session.ValidateKey(s.key); err != nil {
		return err
	}
	if err := protocol.ValidateTitle(title); err != nil {
		return err
	}
	if err := s.index(ctx); err != nil {
		return fmt.Errorf("title of %s: %w", s.key, err)
	}
	err := protocol.SetTitle(ctx, s.c.rdb, s.key, title)
	if err != nil {
		return fmt.Errorf("title of %s: %w", s.key, protocol.Unchanged(err, false))
	}
	return nil
}

// SetQueue sets the session's rules for messages that arrive while a turn runs. It replaces all of
// them; a zero field means the worker's setting. The error wraps
// session.ErrUnchanged if nothing was changed.
func (s *Session) SetQueue(ctx context.Context, q session.QueueSettings) error {
	if err := session.ValidateKey(s.key); err != nil {
		return err
	}
	if err := s.index(ctx); err != nil {
		return fmt.Errorf("configure %s: %w", s.key, err)
	}
	err := protocol.Configure(ctx, s.c.rdb, s.key, s.user, q)
	if err != nil {
		return fmt.Errorf("configure %s: %w", s.key, protocol.Unchanged(err, false))
	}
	return nil
}

// SetReplyTo sets where the outcomes of a session's messages go, unless a message says otherwise. It
// applies to messages that are stored later. An empty destination removes it. The error wraps
// session.ErrInvalid if the session key or the destination is wrong, and session.ErrUnchanged if
// nothing was changed.
func (s *Session) SetReplyTo(ctx context.Context, destination string) error {
	if err := session.ValidateKey(s.key); err != nil {
		return err
	}
	if destination != "" {
		if err := wire.ValidateDestination(destination); err != nil {
			return err
		}
	}
	if err := s.index(ctx); err != nil {
		return fmt.Errorf("set where %s replies to: %w", s.key, err)
	}
	if err := protocol.SetReplyTo(ctx, s.c.rdb, s.key, s.user, destination); err != nil {
		return fmt.Errorf("set where %s replies to: %w", s.key, protocol.Unchanged(err, false))
	}
	return nil
}
