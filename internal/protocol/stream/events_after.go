package stream

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/scripts"
	"turnstile/pkg/session"
)

// EventsAfter reads events after a place in a session's stream, up to about so many bytes, and
// returns the place after them. more reports that there may be further ones. If the stream no
// longer has that place, it returns one session.EventGap or session.EventReset and the place before
// every event. lua/events_after.lua.
func EventsAfter(ctx context.Context, rdb redis.UniversalClient, sessionKey string, after EventID, bytes int) (events []session.Event, place EventID, more bool, err error) {
	k := rediskey.For(sessionKey)
	entry, seen := "", after.index
	if after != (EventID{}) {
		entry = after.Entry()
	}
	if seen != wholeEntry {
		seen++
	}
	r, err := scripts.EventsAfter.Run(ctx, rdb, scripts.EventsAfterKeys(scripts.Keys{Session: k}), scripts.EventsAfterArgs{After: entry, Seen: int64(seen), Room: int64(bytes)})
	if err != nil {
		return nil, after, false, err
	}
	switch r.Status {
	case scripts.Reset:
		return []session.Event{{Type: session.EventReset}}, EventID{}, true, nil
	case scripts.Gap:
		// Read after the events were removed, the transcript has the entries of their turns.
		gap, err := gapOf(ctx, rdb, k)
		if err != nil {
			return nil, after, false, err
		}
		return []session.Event{gap}, EventID{}, true, nil
	}
	place = after
	for _, m := range entriesOf(r.Entries) {
		for _, e := range DecodeEvents(m) {
			if id, err := ParseEventID(e.ID); err == nil && id.After(after) {
				events = append(events, e)
			}
		}
		if id, err := ParseEventID(m.ID); err == nil {
			place = id
		}
	}
	return events, place, r.More, nil
}

// gapOf returns the event of a gap, with the end of the current transcript.
func gapOf(ctx context.Context, rdb redis.UniversalClient, k rediskey.Session) (session.Event, error) {
	gap := session.Event{Type: session.EventGap}
	err := rdb.HGet(ctx, k.Record(), "session_id").Scan(&gap.TranscriptID)
	if errors.Is(err, redis.Nil) {
		return gap, nil
	}
	if err == nil {
		gap.Entries, err = rdb.LLen(ctx, k.Transcript(gap.TranscriptID)).Result()
	}
	return gap, err
}
