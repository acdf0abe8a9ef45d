package turnstile

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/index"
	"turnstile/internal/protocol/wire"
	"turnstile/pkg/session"
)

const (
	// undoMost is the most entries that one script removes: Redis frees 10,000 elements of a list
	// in 0.1 ms. A turn has more only if TURNSTILE_TRANSCRIPT_BYTES is far above its default.
	undoMost = 10_000

	// withdrawnMost bounds the messages of which Undo notifies destinations. A turn has at most
	// 500.
	withdrawnMost = 500

	// undoTries is how often Undo reads the transcript if it changes meanwhile.
	undoTries = 10
)

// Undo removes the last turn's entries from the transcript and returns that turn. Concurrent calls
// of Undo and Retry for the same turn remove it once, and all succeed.
//
// The error wraps session.ErrBusy if a turn has begun and not ended, session.ErrNoTurn if the
// transcript has no turn, and session.ErrLastFailed if the last message failed or was stopped and is still a dead
// letter: then the transcript's last turn is an earlier message's. It also returns an error if the turn has more than 10,000 entries. After
// these errors, and after one that wraps session.ErrUnchanged, nothing was changed.
func (s *Session) Undo(ctx context.Context) (session.Undone, error) {
	return s.retract(ctx, false)
}

// Retry is Undo that also puts the user's texts of that turn back at the head of the queue, as one
// message with a new ID. If that is not a valid message, because its text is too long or the
// transcript has lost it, nothing is changed and the error wraps session.ErrInvalid.
func (s *Session) Retry(ctx context.Context) (session.Undone, error) {
	return s.retract(ctx, true)
}

func (s *Session) retract(ctx context.Context, again bool) (session.Undone, error) {
	if err := session.ValidateKey(s.key); err != nil {
		return session.Undone{}, err
	}
	u := session.Undone{}
	for range undoTries {
		info, err := s.Info(ctx)
		if err != nil {
			return session.Undone{}, protocol.Unchanged(err, true)
		}
		if info.LeaseLeft > 0 || info.Phase != session.PhaseIdle {
			break
		}
		end, err := s.lastTurn(ctx, info.TranscriptID)
		u = end.Undone
		if err != nil {
			return u, protocol.Unchanged(err, true)
		}
		move := protocol.Undo{
			By:      s.user,
			Session: s.key, TranscriptID: info.TranscriptID, Turn: u.Turn, Entries: u.Entries, Length: end.length, Written: info.Entries, Limits: s.c.cfg.Limits,
			Messages: end.messages(),
		}
		if again {
			m := end.message()
			if err := m.Validate(s.c.cfg.Limits); err != nil {
				return u, err
			}
			move.Again = &m
		}
		done, err := move.Do(ctx, s.c.rdb)
		if err != nil {
			return u, fmt.Errorf("undo the last turn of %s: %w", s.key, protocol.Unchanged(err, false))
		}
		switch done.State {
		case "held":
			return u, fmt.Errorf("%w in session %s", session.ErrBusy, s.key)
		case "unsaid":
			return u, fmt.Errorf("%w: %s", session.ErrLastFailed, s.key)
		case "changed":
			continue // a turn or another undo has changed it meanwhile
		}
		if u.Entries = done.Entries; again {
			return u, index.ListAndWake(ctx, s.c.rdb, s.key, done.Now, 0)
		}
		return u, nil
	}
	return u, fmt.Errorf("%w in session %s", session.ErrBusy, s.key)
}

// turnEnd is the last turn of a transcript.
type turnEnd struct {
	session.Undone
	length int64           // of the transcript
	texts  []session.Entry // the user's, newest first
}

// lastTurn reads the transcript's last turn, page by page from its end. An entry that cannot be
// read belongs to the turn before it.
func (s *Session) lastTurn(ctx context.Context, transcriptID string) (end turnEnd, err error) {
	for left, first := int64(-1), true; first || left > 0; first = false {
		older, page, err := protocol.TranscriptPage(ctx, s.c.rdb, s.key, transcriptID, left, protocol.HistoryPage, 0)
		if err != nil {
			return end, fmt.Errorf("read transcript of %s: %w", s.key, err)
		}
		left = older
		if first {
			end.length = older + int64(len(page))
		}
		for _, entry := range page {
			if !end.add(protocol.DecodeEntry(entry)) {
				left = 0
				break
			}
			if end.Entries > undoMost {
				return end, fmt.Errorf("undo the last turn of %s: it has more than %d entries; begin a new transcript instead", s.key, undoMost)
			}
		}
	}
	if end.Turn == "" {
		return end, fmt.Errorf("%w: %s", session.ErrNoTurn, s.key)
	}
	var texts []string
	for _, e := range slices.Backward(end.texts) {
		texts = append(texts, e.Text)
	}
	end.Text = strings.Join(texts, "\n\n")
	return end, nil
}

// add adds the next older entry. It returns false if the entry belongs to another turn.
func (t *turnEnd) add(e session.Entry) bool {
	if e.Turn != "" && t.Turn != "" && e.Turn != t.Turn {
		return false
	}
	if t.Entries++; e.Turn == "" {
		return true
	}
	if t.Turn = e.Turn; e.Role == session.RoleUser {
		t.texts = append(t.texts, e)
	}
	return true
}

// messages returns the IDs of the turn's messages, up to the number that the script accepts.
func (t *turnEnd) messages() (ids []string) {
	for _, e := range slices.Backward(t.texts) {
		if e.Message != "" && len(ids) < withdrawnMost {
			ids = append(ids, e.Message)
		}
	}
	return ids
}

// message joins the user's texts of the turn into one message.
func (t *turnEnd) message() wire.Message {
	m := wire.Message{ID: NewMessageID(), Text: t.Text}
	for _, e := range slices.Backward(t.texts) {
		m.Attachments = append(m.Attachments, e.Attachments...)
		if b := e.Brought; b != nil {
			if m.Request == nil {
				m.Request = &session.ModelRequest{}
			}
			m.Request.Past, m.Request.Results = append(m.Request.Past, b.Past...), append(m.Request.Results, b.Results...)
		}
		if m.Meta == nil {
			m.Meta = e.Meta
		}
	}
	return m
}
