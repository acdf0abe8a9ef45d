package protocol

import (
	"context"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/rediskey"
	"turnstile/internal/script"
)

// TranscriptPage reads a page of a transcript, from its end towards its beginning. left is
// how many of the oldest entries are meant, -1: all. It returns how many older ones are
// left, and the entries as they are stored, the newest first. lua/past.lua.
func TranscriptPage(ctx context.Context, rdb script.Client, sessionKey, sessionID string, left int64, bytes int) (older int64, entries []string, err error) {
	which := any("")
	if left >= 0 {
		which = left
	}
	a, err := pastScript.Run(ctx, rdb, []string{rediskey.For(sessionKey).Transcript(sessionID)}, which, bytes)
	if err != nil {
		return 0, nil, err
	}
	for i := 1; i < len(a); i++ {
		entries = append(entries, a.Text(i))
	}
	return a.Int(0), entries, nil
}

// EventsPage reads the events of a stream behind from, about so many bytes of them. more:
// there may be others behind these. lua/events_page.lua.
func EventsPage(ctx context.Context, rdb script.Client, stream, from string, bytes int) (events []redis.XMessage, more bool, err error) {
	a, err := eventsPageScript.Run(ctx, rdb, []string{stream}, from, bytes)
	if err != nil {
		return nil, false, err
	}
	events = make([]redis.XMessage, len(a)-1)
	for i := range events {
		entry := a.List(i + 1)
		fields := entry.List(1)
		events[i] = redis.XMessage{ID: entry.Text(0), Values: make(map[string]any, len(fields)/2)}
		for j := 0; j+1 < len(fields); j += 2 {
			events[i].Values[fields.Text(j)] = fields[j+1]
		}
	}
	return events, a.Int(0) == 1, nil
}

// Place is a place in a stream.
type Place struct{ Stream, From string }

// HaveEvents reports which of the places have events behind them, in one round trip. Where
// Redis has refused to tell, it says yes: whoever reads there sees the error.
func HaveEvents(ctx context.Context, rdb redis.UniversalClient, places []Place) []bool {
	looks := eventsPageScript.Each(ctx, rdb, len(places), func(i int) ([]string, []any) {
		return []string{places[i].Stream}, []any{places[i].From, 0}
	})
	have := make([]bool, len(places))
	for i, look := range looks {
		have[i] = look.Err != nil || look.Result.Int(0) != 0
	}
	return have
}
