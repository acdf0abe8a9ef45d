package protocol

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"turnstile/internal/rediskey"
	"turnstile/pkg/session"
)

// What Undo and Retry may answer.
var (
	ErrBusy    = errors.New("a turn is running")
	ErrNothing = errors.New("the conversation has no turn")
)

const (
	// undoMost is the most entries that are taken out at once. Redis frees so many of a
	// list in a tenth of a millisecond. A turn has as many only where TRANSCRIPT_CAP is
	// far above its default.
	undoMost = 10_000

	// undoTries is how often a conversation is looked at that changes meanwhile.
	undoTries = 10
)

// Undone is what Undo or Retry has taken out.
type Undone struct {
	Turn    string
	Text    string // what the user had said
	Entries int    // how many
}

// Undo takes the last turn's entries out of the transcript, at most 10,000. ErrBusy: a
// turn is running. ErrNothing: there is no turn. Of several calls at once that mean the
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
	k, u := rediskey.For(sessionKey), Undone{}
	for range undoTries {
		s, err := c.Session(ctx, sessionKey)
		if err != nil {
			return Undone{}, unchangedError{err}
		}
		if s.Left > 0 || s.Phase != PhaseIdle {
			break
		}
		end, err := c.lastTurn(ctx, sessionKey, s.SessionID)
		u = end.Undone
		if err != nil {
			return u, unchangedError{err}
		}
		args := []any{k.TaskPrefix(), u.Turn, "", "", s.SessionID, u.Entries, end.length, s.Entries}
		if again {
			m := end.message()
			if err := c.cfg.Limits.Validate(m); err != nil {
				return u, err
			}
			task, err := encodeTask(sessionKey, m, c.cfg.Limits)
			if err != nil {
				return u, err
			}
			args[2], args[3] = session.TaskID(sessionKey, m.ID), task
		}
		reply, err := run(ctx, c.rdb, undoScript(), append(keys(sessionKey, s.SessionID, time.Now()), k.Call("undo-"+u.Turn)), args...)
		if err != nil {
			return u, fmt.Errorf("undo the last turn of %s: %w", sessionKey, unchanged(err))
		}
		switch reply.str(0) {
		case "held":
			return u, fmt.Errorf("%w in session %s", ErrBusy, sessionKey)
		case "changed":
			continue // a turn has come and gone meanwhile, or another undo
		}
		if u.Entries = int(reply.int(1)); again {
			return u, c.announce(ctx, sessionKey, reply.int(2), 0)
		}
		return u, nil
	}
	return u, fmt.Errorf("%w in session %s", ErrBusy, sessionKey)
}

// turnEnd is a transcript's last turn.
type turnEnd struct {
	Undone
	length int64           // of the transcript
	said   []session.Entry // by the user, the newest first
}

// lastTurn reads the transcript's last turn, by pages from its end. An entry that cannot
// be read goes with the turn before it.
func (c *Client) lastTurn(ctx context.Context, sessionKey, sessionID string) (end turnEnd, err error) {
	transcript := []string{rediskey.For(sessionKey).Transcript(sessionID)}
	for left, first := any(""), true; first || left != int64(0); first = false {
		page, err := run(ctx, c.rdb, pastScript(), transcript, left, pastPage)
		if err != nil {
			return end, fmt.Errorf("read transcript of %s: %w", sessionKey, err)
		}
		left = page.int(0)
		if first {
			end.length = page.int(0) + int64(len(page)-1)
		}
		for i := 1; i < len(page); i++ {
			if !end.add(session.DecodeEntry(page.str(i))) {
				left = int64(0)
				break
			}
			if end.Entries > undoMost {
				return end, fmt.Errorf("undo the last turn of %s: it has more than %d entries; begin a new conversation instead", sessionKey, undoMost)
			}
		}
	}
	if end.Turn == "" {
		return end, fmt.Errorf("%w: %s", ErrNothing, sessionKey)
	}
	var texts []string
	for _, e := range slices.Backward(end.said) {
		texts = append(texts, e.Text)
	}
	end.Text = strings.Join(texts, "\n\n")
	return end, nil
}

// add takes the entry before the last one that was added. False: it is another turn's.
func (t *turnEnd) add(e session.Entry) bool {
	if e.Turn != "" && t.Turn != "" && e.Turn != t.Turn {
		return false
	}
	if t.Entries++; e.Turn == "" {
		return true
	}
	if t.Turn = e.Turn; e.Role == session.RoleUser {
		t.said = append(t.said, e)
	}
	return true
}

// message is what the turn's user had said, as one.
func (t *turnEnd) message() session.Message {
	m := session.Message{ID: NewMessageID(), Text: t.Text}
	for _, e := range slices.Backward(t.said) {
		m.Attachments = append(m.Attachments, e.Attachments...)
		if m.Meta == nil {
			m.Meta = e.Meta
		}
	}
	return m
}
