package turnstile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/stream"
	"turnstile/internal/redis/script"
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

	// EventID is where the newest page of the current transcript ends in the session's events:
	// EventsAfter(EventID) has the running turn from its start, and everything later. "" for any other
	// page.
	EventID string
}

// noEvent is the place before every event.
const noEvent = "0-0"

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
	if q.ID != "" || q.Before > 0 {
		if q.ID == "" {
			q.ID, err = s.transcriptID(ctx)
		}
		if q.ID == "" || err != nil {
			return page, err
		}
		return s.page(ctx, q)
	}
	end, place, err := s.newestEnd(ctx)
	if q.ID = end.transcript; q.ID != "" && err == nil {
		page, err = s.page(ctx, q)
	}
	if err != nil {
		return page, err
	}
	page.EventID = cmp.Or(place, noEvent)
	page.Entries = slices.DeleteFunc(page.Entries, func(e session.Entry) bool { // they come as events
		fence, _ := strings.CutPrefix(e.Turn, rediskey.IDPrefix(s.key))
		return script.Number(fence) > end.fence || script.Number(fence) == end.fence && end.startedAt > 0
	})
	return page, nil
}

// newestEnd returns where a newest page ends, and the last event before that. It reads again if a turn
// begins between the reads of an idle session: its first events could be before the place.
func (s *Session) newestEnd(ctx context.Context) (end pageEnd, place string, err error) {
	for {
		if end, err = s.pageEnd(ctx); err != nil {
			return end, "", err
		}
		if place, err = s.eventsBefore(ctx, end); err != nil || end.startedAt > 0 {
			return end, place, err
		}
		if again, err := s.pageEnd(ctx); again == end || err != nil {
			return end, place, err
		}
	}
}

// page reads a page of a transcript, without its EventID.
func (s *Session) page(ctx context.Context, q TranscriptQuery) (page TranscriptPage, err error) {
	page.ID = q.ID
	if q.Before == 0 {
		q.Before = -1
	}
	if q.Limit == session.NoLimit {
		page.Entries, err = s.entries(ctx, q, math.MaxInt)
		return page, err
	}
	older, lines, err := protocol.TranscriptPage(ctx, s.c.rdb, s.key, page.ID, q.Before, protocol.HistoryPage, q.Limit)
	if err != nil {
		return page, fmt.Errorf("read transcript of %s: %w", s.key, err)
	}
	if len(lines) == 0 {
		older = 0 // Before is beyond the end
	}
	slices.Reverse(lines) // they are newest first
	page.Entries, page.Before = protocol.DecodeEntries(lines), older
	return page, nil
}

// entries returns the last entries before a place, oldest first: at most q.Limit, or all, of about so many bytes. It reads
// 2 MiB at a time.
func (s *Session) entries(ctx context.Context, q TranscriptQuery, bytes int) ([]session.Entry, error) {
	var all []string // newest first
	for left := q.Before; left != 0 && bytes > 0 && (q.Limit == session.NoLimit || len(all) < q.Limit); {
		older, lines, err := protocol.TranscriptPage(ctx, s.c.rdb, s.key, q.ID, left, protocol.HistoryPage, max(q.Limit-len(all), 0))
		if err != nil {
			return nil, fmt.Errorf("read transcript of %s: %w", s.key, err)
		}
		if left = older; len(lines) == 0 {
			break
		}
		for _, line := range lines {
			bytes -= len(line)
		}
		all = append(all, lines...)
	}
	slices.Reverse(all)
	return protocol.DecodeEntries(all), nil
}

// pageEnd is a session's state between two turns, or within one.
type pageEnd struct {
	transcript string // the current one, which need not be the turn's
	fence      int64  // of the last turn
	startedAt  int64  // in ms; 0: the turn has ended
}

func (s *Session) pageEnd(ctx context.Context) (pageEnd, error) {
	k, p := rediskey.For(s.key), s.c.rdb.Pipeline()
	record, run := p.HMGet(ctx, k.Record(), "session_id"), p.HMGet(ctx, k.Run(), "fence", "phase", "started_at")
	if _, err := p.Exec(ctx); err != nil {
		return pageEnd{}, fmt.Errorf("read session %s: %w", s.key, err)
	}
	turn := script.HashFields(run)
	end := pageEnd{transcript: script.HashFields(record).Text("session_id"), fence: turn.Int("fence")}
	if phase := turn.Text("phase"); phase != "" && phase != string(session.PhaseIdle) { // started_at may be left of a turn that was requeued
		end.startedAt = turn.Int("started_at")
	}
	return end, nil
}

// eventsBefore returns the last event's ID, or if the turn still runs, the last one before it.
func (s *Session) eventsBefore(ctx context.Context, end pageEnd) (string, error) {
	if end.startedAt == 0 {
		return stream.LastEventID(ctx, s.c.rdb, s.key)
	}
	return stream.LastEventIDBefore(ctx, s.c.rdb, s.key, rediskey.IDPrefix(s.key)+strconv.FormatInt(end.fence, 10), end.startedAt)
}

// transcriptID returns the current transcript's ID, "" if there is none yet.
func (s *Session) transcriptID(ctx context.Context) (string, error) {
	id, err := s.c.rdb.HGet(ctx, rediskey.For(s.key).Record(), "session_id").Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return "", fmt.Errorf("read session %s: %w", s.key, err)
	}
	return id, nil
}
