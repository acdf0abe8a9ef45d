package sessionqueue

import (
	"context"
	"crypto/rand"
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

const stopBatch = 500

// Stopped is what Stop found.
type Stopped struct {
	Phase   string // of the turn that was told to end: idle, starting or running
	Fence   int64  // that turn
	Dropped int    // messages that waited and are now archived as "stopped by user"
}

// Stop ends the turn that runs now, and archives the messages that wait now. The
// turn that it found is named by its fence: one that starts later is not meant.
func (c *Client) Stop(ctx context.Context, sessionKey string) (Stopped, error) {
	if err := session.ValidateKey(sessionKey); err != nil {
		return Stopped{}, err
	}
	var s Stopped
	k, name := rediskey.For(sessionKey), rand.Text()
	for last, batch := "", 1; batch == 1 || last != ""; batch++ {
		reply, err := run(ctx, c.rdb, stopScript, keys(sessionKey, "", time.Now()),
			k.TaskPrefix(), session.IDPrefix(sessionKey), stopBatch, last, senderEvents, fmt.Sprint(name, "-", batch))
		if err != nil {
			if batch == 1 {
				err = unchanged(err)
			}
			return s, fmt.Errorf("stop %s: %w", sessionKey, err)
		}
		if batch == 1 {
			s.Phase, s.Fence = reply.str(0), reply.int(1)
		}
		s.Dropped += int(reply.int(2))
		last = reply.str(3)
	}
	return s, nil
}

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
// finishes into the old one. If old is not empty, only that session id is
// replaced. It answers the session id that holds now.
func (c *Client) Rotate(ctx context.Context, sessionKey, old string) (sessionID string, err error) {
	if err := session.ValidateKey(sessionKey); err != nil {
		return "", err
	}
	if old == "" { // else there is a record, or nothing is written
		if err := c.index(ctx, sessionKey); err != nil {
			return "", fmt.Errorf("rotate %s: %w", sessionKey, err)
		}
	}
	reply, err := run(ctx, c.rdb, rotateScript, keys(sessionKey, "", time.Now()), rediskey.For(sessionKey).TaskPrefix(), newSessionID(), old)
	if err != nil {
		return "", fmt.Errorf("rotate %s: %w", sessionKey, unchanged(err))
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
