package turnstile

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
	"turnstile/internal/rediskey"
	"turnstile/pkg/session"
)

// TranscriptQuery says which page Transcript reads. A zero field means its default.
type TranscriptQuery struct {
	ID     string // of the transcript. Defaults to the current one
	Before int64  // TranscriptPage.Before of the page before. Defaults to the end
	Limit  int    // entries, or session.NoLimit. Defaults to 100
}

// TranscriptPage is a page of a transcript.
type TranscriptPage struct {
	ID      string          // of the transcript; "" if the session has none yet
	Entries []session.Entry // oldest first
	Before  int64           // of the next older page; 0: there is none
}

// defaultEntries is the default of TranscriptQuery.Limit.
const defaultEntries = 100

// Transcript reads a page of the session's transcript, beginning with the last page. A transcript
// that does not exist or has expired is empty. An entry that cannot be read has the role
// session.RoleSystem and the reason as its text. A page with long entries has fewer than Limit,
// unless there is no limit. If the transcript's cap removes entries between two calls, the second
// page may repeat some of the first.
func (s *Session) Transcript(ctx context.Context, q TranscriptQuery) (page TranscriptPage, err error) {
	if err := session.ValidateKey(s.key); err != nil {
		return page, err
	}
	if q.Limit == 0 {
		q.Limit = defaultEntries
	}
	if q.Limit < session.NoLimit || q.Before < 0 {
		return page, fmt.Errorf("%w transcript query: Before and Limit must not be negative", session.ErrInvalid)
	}
	if page.ID = q.ID; page.ID == "" {
		if page.ID, err = s.transcriptID(ctx); page.ID == "" || err != nil {
			return page, err
		}
	}
	switch {
	case q.Limit == session.NoLimit && q.Before == 0:
		page.Entries, err = s.lastEntries(ctx, page.ID, 0)
		return page, err
	case q.Limit == session.NoLimit:
		page.Entries, err = s.entries(ctx, page.ID, 0, q.Before-1)
		return page, err
	case q.Before == 0:
		q.Before = -1
	}
	older, lines, err := protocol.TranscriptPage(ctx, s.c.rdb, s.key, page.ID, q.Before, protocol.HistoryPage)
	if err != nil {
		return page, fmt.Errorf("read transcript of %s: %w", s.key, err)
	}
	if len(lines) == 0 {
		older = 0 // Before is beyond the end
	}
	if n := len(lines) - q.Limit; n > 0 {
		older += int64(n)
		lines = lines[:q.Limit]
	}
	slices.Reverse(lines) // they are newest first
	page.Entries, page.Before = protocol.DecodeEntries(lines), older
	return page, nil
}

// transcriptID returns the current transcript's ID, "" if there is none yet.
func (s *Session) transcriptID(ctx context.Context) (string, error) {
	id, err := s.c.rdb.HGet(ctx, rediskey.For(s.key).Record(), "session_id").Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return "", fmt.Errorf("read session %s: %w", s.key, err)
	}
	return id, nil
}

// lastEntries returns the last n entries of a transcript, oldest first; 0: all.
func (s *Session) lastEntries(ctx context.Context, id string, n int) ([]session.Entry, error) {
	return s.entries(ctx, id, int64(-n), -1)
}

func (s *Session) entries(ctx context.Context, id string, first, last int64) ([]session.Entry, error) {
	lines, err := s.c.rdb.LRange(ctx, rediskey.For(s.key).Transcript(id), first, last).Result()
	if err != nil {
		return nil, fmt.Errorf("read transcript of %s: %w", s.key, err)
	}
	return protocol.DecodeEntries(lines), nil
}
