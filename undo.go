package turnstile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/index"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/wire"
	"turnstile/internal/redis/script"
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

// Undo removes the last turn that ended, and returns it: its entries from the transcript, and its dead letters.
// Concurrent calls of Undo and Retry for the same turn remove it once, and all succeed.
//
// The error wraps session.ErrBusy if a turn has begun and not ended, session.ErrNoTurn if the
// transcript has no turn, and session.ErrLastFailed if the last message failed or was stopped without entries, and is
// still a dead letter. It also returns an error if the turn has more than 10,000 entries. After
// these errors, and after one that wraps session.ErrUnchanged, nothing was changed.
func (s *Session) Undo(ctx context.Context) (session.Undone, error) {
	return s.retract(ctx, false)
}

// Retry is Undo that also puts the user's texts of that turn back at the head of the queue, as one
// message with a new ID, whose steps have the idempotency keys of that turn while its first message is stored. A turn
// without entries, for which Undo returns session.ErrLastFailed, runs again. If the texts are not a valid message,
// because they are too long or the transcript has lost them, nothing is changed and the error wraps
// session.ErrInvalid.
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
		unsaid, err := protocol.ReadUnsaid(ctx, s.c.rdb, s.key, s.c.cfg.Limits)
		if err != nil {
			return session.Undone{}, protocol.Unchanged(err, true)
		}
		end, err := s.lastTurn(ctx, info.TranscriptID)
		last := len(unsaid.Messages) > 0 && unsaid.TranscriptID == info.TranscriptID && s.follows(unsaid, end)
		if err != nil && (!last || !errors.Is(err, session.ErrNoTurn)) {
			return end.Undone, protocol.Unchanged(err, true)
		}
		switch {
		case last && !again:
			return u, fmt.Errorf("%w: %s", session.ErrLastFailed, s.key)
		case last && unsaid.Invalid != nil:
			return u, unsaid.Invalid
		case last:
			end.turnOf(unsaid, s.key)
		}
		u = end.Undone
		move := protocol.Undo{
			By:      s.user,
			Session: s.key, TranscriptID: info.TranscriptID, Turn: u.Turn, Entries: u.Entries, Length: end.length, Written: info.Entries, Limits: s.c.cfg.Limits,
			Unsaid: unsaid.Stored, Messages: end.messages(),
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
	ended  bool            // it failed or was stopped
	texts  []session.Entry // the user's, newest first
}

// follows reports whether unsaid messages are newer than the transcript's last turn. With its number, they waited
// during that turn: a turn that was stopped with them is the last one.
func (s *Session) follows(unsaid protocol.Unsaid, end turnEnd) bool {
	fence, _ := strings.CutPrefix(end.Turn, rediskey.IDPrefix(s.key))
	turn := script.Number(fence)
	return unsaid.Fence > turn || unsaid.Fence == turn && !end.ended
}

// turnOf replaces the turn by the unsaid one.
func (t *turnEnd) turnOf(unsaid protocol.Unsaid, key string) {
	t.Undone, t.texts = session.Undone{}, nil
	if unsaid.Fence > 0 {
		t.Turn = fmt.Sprint(rediskey.IDPrefix(key), unsaid.Fence)
	}
	for _, m := range slices.Backward(unsaid.Messages) {
		e := session.Entry{Role: session.RoleUser, Text: m.Text, Message: m.ID, Meta: m.Meta, Attachments: m.Attachments}
		if m.Request != nil {
			e.Brought = &m.Request.Brought
		}
		t.texts = append(t.texts, e)
	}
	t.join()
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
	end.join()
	return end, nil
}

// join sets the turn's text.
func (t *turnEnd) join() {
	var texts []string
	for _, e := range slices.Backward(t.texts) {
		texts = append(texts, e.Text)
	}
	t.Text = strings.Join(texts, "\n\n")
}

// add adds the next older entry. It returns false if the entry belongs to another turn.
func (t *turnEnd) add(e session.Entry) bool {
	if e.Turn != "" && t.Turn != "" && e.Turn != t.Turn {
		return false
	}
	if t.Entries++; e.Turn == "" {
		return true
	}
	t.ended = t.ended || e.Ended != nil
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
