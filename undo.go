package turnstile

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"turnstile/internal/protocol"
	"turnstile/internal/stored"
	"turnstile/pkg/session"
)

const (
	// undoMost is the most entries that are taken out at once. Redis frees so many of a
	// list in a tenth of a millisecond. A turn has as many only where TRANSCRIPT_CAP is
	// far above its default.
	undoMost = 10_000

	// undoTries is how often a conversation is looked at that changes meanwhile.
	undoTries = 10
)

// Undo takes the last turn's entries out of the transcript, at most 10,000. ErrBusy: a
// turn is running. ErrNothing: there is no turn. Of several calls at once that mean the
// same turn, of Retry's too, the first takes it out, and all succeed.
func (c *Client) Undo(ctx context.Context, sessionKey string) (session.Undone, error) {
	return c.retract(ctx, sessionKey, false)
}

// Retry is Undo that also puts what the user had said at the head of the line,
// as one new message. It wraps session.ErrInvalid, and changes nothing, where that
// would be none: too long, or not in the transcript any more.
func (c *Client) Retry(ctx context.Context, sessionKey string) (session.Undone, error) {
	return c.retract(ctx, sessionKey, true)
}

func (c *Client) retract(ctx context.Context, sessionKey string, again bool) (session.Undone, error) {
	if err := session.ValidateKey(sessionKey); err != nil {
		return session.Undone{}, err
	}
	u := session.Undone{}
	for range undoTries {
		s, err := c.admin.Session(ctx, sessionKey)
		if err != nil {
			return session.Undone{}, protocol.Unchanged(err, true)
		}
		if s.Left > 0 || s.Phase != session.PhaseIdle {
			break
		}
		end, err := c.lastTurn(ctx, sessionKey, s.SessionID)
		u = end.Undone
		if err != nil {
			return u, protocol.Unchanged(err, true)
		}
		move := protocol.Undo{
			Session: sessionKey, SessionID: s.SessionID, Turn: u.Turn, Entries: u.Entries, Length: end.length, Written: s.Entries, Limits: c.cfg.Limits,
		}
		if again {
			m := end.message()
			if err := c.cfg.Limits.Validate(m); err != nil {
				return u, err
			}
			move.Again = &m
		}
		done, err := move.Do(ctx, c.rdb)
		if err != nil {
			return u, fmt.Errorf("undo the last turn of %s: %w", sessionKey, protocol.Unchanged(err, false))
		}
		switch done.State {
		case "held":
			return u, fmt.Errorf("%w in session %s", session.ErrBusy, sessionKey)
		case "changed":
			continue // a turn has come and gone meanwhile, or another undo
		}
		if u.Entries = done.Entries; again {
			return u, protocol.Announce(ctx, c.rdb, sessionKey, done.Now, 0)
		}
		return u, nil
	}
	return u, fmt.Errorf("%w in session %s", session.ErrBusy, sessionKey)
}

// turnEnd is a transcript's last turn.
type turnEnd struct {
	session.Undone
	length int64           // of the transcript
	said   []session.Entry // by the user, the newest first
}

// lastTurn reads the transcript's last turn, by pages from its end. An entry that cannot
// be read goes with the turn before it.
func (c *Client) lastTurn(ctx context.Context, sessionKey, sessionID string) (end turnEnd, err error) {
	for left, first := int64(-1), true; first || left > 0; first = false {
		older, page, err := protocol.TranscriptPage(ctx, c.rdb, sessionKey, sessionID, left, protocol.HistoryPage)
		if err != nil {
			return end, fmt.Errorf("read transcript of %s: %w", sessionKey, err)
		}
		left = older
		if first {
			end.length = older + int64(len(page))
		}
		for _, entry := range page {
			if !end.add(stored.DecodeEntry(entry)) {
				left = 0
				break
			}
			if end.Entries > undoMost {
				return end, fmt.Errorf("undo the last turn of %s: it has more than %d entries; begin a new conversation instead", sessionKey, undoMost)
			}
		}
	}
	if end.Turn == "" {
		return end, fmt.Errorf("%w: %s", session.ErrNoTurn, sessionKey)
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
