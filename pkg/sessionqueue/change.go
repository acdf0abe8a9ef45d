package sessionqueue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/rediskey"
	"turnstile/pkg/followup"
	"turnstile/pkg/session"
)

// What Undo and Retry may answer.
var (
	ErrBusy    = errors.New("a turn is running")
	ErrNothing = errors.New("the conversation has no turn")
)

// index makes a session known before its record is written, so that Forget finds a
// record that no message has come to.
func (c *Client) index(ctx context.Context, sessionKey string) error {
	now, err := c.tasks.now(ctx)
	if err != nil {
		return unchanged(err)
	}
	return unchanged(c.rdb.ZAdd(ctx, rediskey.Sessions, redis.Z{Score: float64(now), Member: sessionKey}).Err())
}

// Rotate gives the session another session id: the next message begins another
// transcript under the same key, queue and lock, and a turn that is running
// finishes into the old one. Only the session id old is replaced; if it is empty, the
// one that holds now. It answers the session id that holds then.
func (c *Client) Rotate(ctx context.Context, sessionKey, old string) (sessionID string, err error) {
	if err := session.ValidateKey(sessionKey); err != nil {
		return "", err
	}
	if sessionID, err = c.rotate(ctx, sessionKey, old); err != nil {
		return "", fmt.Errorf("rotate %s: %w", sessionKey, unchanged(err))
	}
	return sessionID, nil
}

func (c *Client) rotate(ctx context.Context, sessionKey, old string) (string, error) {
	_, until, err := c.giveUpAt(ctx, sessionKey)
	if err != nil {
		return "", err
	}
	if old == "" { // else there is a record, or nothing is written
		if old, err = c.rdb.HGet(ctx, rediskey.For(sessionKey).Record(), "session_id").Result(); err != nil && !errors.Is(err, redis.Nil) {
			return "", err
		}
		if err := c.index(ctx, sessionKey); err != nil {
			return "", err
		}
	}
	reply, err := run(ctx, c.rdb, rotateScript, keys(sessionKey, "", time.Now()), rediskey.For(sessionKey).TaskPrefix(), newSessionID(), old, until)
	if err != nil {
		return "", err
	}
	if reply.int(1) < 0 {
		return "", errLate
	}
	return reply.str(0), nil
}

// SetTitle gives the conversation a title that no agent overwrites; an empty one
// takes it away. Errors about the title wrap session.ErrInvalid.
func (c *Client) SetTitle(ctx context.Context, sessionKey, title string) error {
	if err := session.ValidateKey(sessionKey); err != nil {
		return err
	}
	if err := session.ValidateTitle(title); err != nil {
		return err
	}
	if err := c.index(ctx, sessionKey); err != nil {
		return fmt.Errorf("title of %s: %w", sessionKey, err)
	}
	_, err := run(ctx, c.rdb, titleScript, keys(sessionKey, "", time.Now()), rediskey.For(sessionKey).TaskPrefix(), "", "", title)
	if err != nil {
		return fmt.Errorf("title of %s: %w", sessionKey, unchanged(err))
	}
	return nil
}

// Configure says what messages do that find the session busy and name no mode.
// The zero Settings are those of the worker.
func (c *Client) Configure(ctx context.Context, sessionKey string, s followup.Settings) error {
	if err := session.ValidateKey(sessionKey); err != nil {
		return err
	}
	var text string
	if s != (followup.Settings{}) {
		var err error
		if text, err = marshal(s); err != nil {
			return fmt.Errorf("encode settings: %w", err)
		}
	}
	if err := c.index(ctx, sessionKey); err != nil {
		return fmt.Errorf("configure %s: %w", sessionKey, err)
	}
	_, err := run(ctx, c.rdb, configureScript, keys(sessionKey, "", time.Now()), rediskey.For(sessionKey).TaskPrefix(), text)
	if err != nil {
		return fmt.Errorf("configure %s: %w", sessionKey, unchanged(err))
	}
	return nil
}

// Undone is what Undo or Retry has taken out.
type Undone struct {
	Turn    string
	Text    string // what the user had said
	Entries int    // how many
}

// Undo takes the last turn's entries out of the transcript. ErrBusy: a turn is
// running. ErrNothing: there is no turn. Of several calls at once that mean the
// same turn, of Retry's too, the first takes it out, and all succeed.
func (c *Client) Undo(ctx context.Context, sessionKey string) (Undone, error) {
	return c.retract(ctx, sessionKey, false)
}

// Retry is Undo that also puts what the user had said at the head of the line,
// as one new message. It wraps session.ErrInvalid, and changes nothing, where that
// would be none: too long, or not in the transcript any more.
func (c *Client) Retry(ctx context.Context, sessionKey string) (Undone, error) {
	return c.retract(ctx, sessionKey, true)
}

func (c *Client) retract(ctx context.Context, sessionKey string, again bool) (Undone, error) {
	if err := session.ValidateKey(sessionKey); err != nil {
		return Undone{}, err
	}
	for last := ""; ; {
		s, err := c.Session(ctx, sessionKey)
		if err != nil {
			return Undone{}, err
		}
		if s.Left > 0 || s.Phase != PhaseIdle {
			return Undone{}, fmt.Errorf("%w in session %s", ErrBusy, sessionKey)
		}
		u, m, err := c.lastTurn(ctx, sessionKey)
		if err != nil {
			return u, err
		}
		args := []any{rediskey.For(sessionKey).TaskPrefix(), u.Turn, "", "", s.SessionID}
		if again {
			if err := m.Validate(); err != nil {
				return u, err
			}
			task, err := encodeTask(sessionKey, m)
			if err != nil {
				return u, err
			}
			args[2], args[3] = session.TaskID(sessionKey, m.ID), task
		}
		reply, err := run(ctx, c.rdb, undoScript, keys(sessionKey, s.SessionID, time.Now()), args...)
		if err != nil {
			return u, fmt.Errorf("undo the last turn of %s: %w", sessionKey, unchanged(err))
		}
		switch reply.str(0) {
		case "held":
			return u, fmt.Errorf("%w in session %s", ErrBusy, sessionKey)
		case "changed":
			if u.Turn == last {
				return u, fmt.Errorf("undo the last turn of %s: entries behind it cannot be read", sessionKey)
			}
			last = u.Turn
			continue // another turn has ended meanwhile
		}
		if u.Entries = int(reply.int(1)); again {
			return u, c.announce(ctx, sessionKey, reply.int(2), 0)
		}
		return u, nil
	}
}

// lastTurn reads the transcript's last turn, and what its user had said as one
// message.
func (c *Client) lastTurn(ctx context.Context, sessionKey string) (u Undone, m session.Message, err error) {
	entries, err := c.last(ctx, sessionKey, 0)
	if err != nil {
		return u, m, err
	}
	for _, e := range entries {
		if e.Turn != "" {
			u.Turn = e.Turn
		}
	}
	if u.Turn == "" {
		return u, m, fmt.Errorf("%w: %s", ErrNothing, sessionKey)
	}
	var texts []string
	for _, e := range entries {
		if e.Turn != u.Turn || e.Role != session.RoleUser {
			continue
		}
		texts = append(texts, e.Text)
		m.Attachments = append(m.Attachments, e.Attachments...)
		if m.Meta == nil {
			m.Meta = e.Meta
		}
	}
	u.Text = strings.Join(texts, "\n\n")
	m.ID, m.Text = NewMessageID(), u.Text
	return u, m, nil
}
