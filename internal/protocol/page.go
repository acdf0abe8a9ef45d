package protocol

import (
	"context"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/rediskey"
	"turnstile/internal/script"
)

// TranscriptPage reads a page of a transcript, of about so many bytes, from its end towards its
// beginning. left is how many of the oldest entries it may read, -1 for all. It returns how many
// older entries are left, and the stored entries of the page, newest first. lua/transcript_page.lua.
func TranscriptPage(ctx context.Context, rdb script.Client, sessionKey, sessionID string, left int64, bytes int) (older int64, entries []string, err error) {
	which := any("")
	if left >= 0 {
		which = left
	}
	call := pageOf(sessionKey, sessionID, which, bytes)
	r, err := transcriptPageMove.run(ctx, rdb, call.Keys, call.Args)
	if err != nil {
		return 0, nil, err
	}
	page := r.behind()
	for i := range page {
		entries = append(entries, page.Text(i))
	}
	return r.int("left"), entries, nil
}

// pageOf returns the call that reads a page of a transcript. oldest is how many of the oldest
// entries it may read, "" for all.
func pageOf(sessionKey, sessionID string, oldest any, bytes int) *script.Call {
	return &script.Call{
		Script: transcriptPageMove.Script, Keys: []string{rediskey.For(sessionKey).Transcript(sessionID)},
		Args: transcriptPageMove.args("oldest", oldest, "room", bytes),
	}
}

// EventsPage reads events of a stream behind from, about so many bytes of them. more reports that
// there may be further ones. lua/events_page.lua.
func EventsPage(ctx context.Context, rdb script.Client, stream, from string, bytes int) (events []redis.XMessage, more bool, err error) {
	r, err := eventsPageMove.run(ctx, rdb, []string{stream}, eventsPageMove.args("after", from, "room", bytes))
	if err != nil {
		return nil, false, err
	}
	return entriesOf(r.behind()), r.is("more"), nil
}

// entriesOf reads entries of a stream, as XRANGE returns them.
func entriesOf(page script.Result) []redis.XMessage {
	entries := make([]redis.XMessage, len(page))
	for i := range entries {
		entry := page.List(i).Named("id", "fields")
		fields := entry.List("fields")
		entries[i] = redis.XMessage{ID: entry.Text("id"), Values: make(map[string]any, len(fields)/2)}
		for j := 0; j+1 < len(fields); j += 2 {
			entries[i].Values[fields.Text(j)] = fields[j+1]
		}
	}
	return entries
}

// Place is a place in a stream.
type Place struct{ Stream, From string }

// HaveEvents reports which of the places have events behind them, in one round trip. It reports
// true where Redis refused the read: the caller's own read returns that error.
func HaveEvents(ctx context.Context, rdb redis.UniversalClient, places []Place) []bool {
	looks := eventsPageMove.Each(ctx, rdb, len(places), func(i int) ([]string, []any) {
		return []string{places[i].Stream}, eventsPageMove.args("after", places[i].From, "room", 0)
	})
	have := make([]bool, len(places))
	for i, look := range looks {
		have[i] = look.Err != nil || eventsPageMove.returned(look.Result).is("more")
	}
	return have
}
