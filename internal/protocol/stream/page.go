package stream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/scripts"
	"turnstile/internal/redis/script"
	"turnstile/pkg/session"
)

// EventsPage reads events of a stream after from, up to about so many bytes. more reports that
// there may be further ones. lua/events_page.lua.
func EventsPage(ctx context.Context, rdb script.Client, stream, from string, bytes int) (events []redis.XMessage, more bool, err error) {
	r, err := scripts.EventsPage.Run(ctx, rdb, []string{stream}, scripts.EventsPageArgs{After: from, Room: int64(bytes)})
	if err != nil {
		return nil, false, err
	}
	return entriesOf(r.Entries), r.More, nil
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

// LastEventID returns the ID of a session's last event, "" if there is none.
func LastEventID(ctx context.Context, rdb redis.UniversalClient, sessionKey string) (string, error) {
	return lastEvent(ctx, rdb, sessionKey, "+")
}

// LastEventIDAt is LastEventID at a time by Redis' clock in ms, if the stream still has the events
// of that time.
func LastEventIDAt(ctx context.Context, rdb redis.UniversalClient, sessionKey string, ms int64) (string, error) {
	return lastEvent(ctx, rdb, sessionKey, strconv.FormatInt(ms, 10))
}

// turnPage is how many entries LastEventIDBefore reads at once.
const turnPage = 100

// LastEventIDBefore is LastEventID before a turn, which began at a time of Redis' clock in ms.
func LastEventIDBefore(ctx context.Context, rdb redis.UniversalClient, sessionKey, turn string, startedAt int64) (string, error) {
	last, from := "", strconv.FormatInt(startedAt, 10)
	for {
		page, err := rdb.XRangeN(ctx, rediskey.For(sessionKey).Events(), from, "+", turnPage).Result()
		if err != nil {
			return "", fmt.Errorf("read the events of turn %s: %w", turn, err)
		}
		for _, m := range page {
			from = "(" + m.ID
			for _, e := range DecodeEvents(m) {
				switch {
				case e.Turn != turn:
					last = e.ID
				case last != "":
					return last, nil
				default:
					return lastEvent(ctx, rdb, sessionKey, from)
				}
			}
		}
		if len(page) < turnPage { // the turn has no events yet
			return LastEventID(ctx, rdb, sessionKey)
		}
	}
}

// lastEvent returns the ID of the last event up to an end, as XREVRANGE has it: of one that is stored, or the last one
// that purge has deleted.
func lastEvent(ctx context.Context, rdb redis.UniversalClient, sessionKey, end string) (string, error) {
	if err := session.ValidateKey(sessionKey); err != nil {
		return "", err
	}
	k := rediskey.For(sessionKey)
	last, err := rdb.XRevRangeN(ctx, k.Events(), end, "-", 1).Result()
	if err != nil {
		return "", fmt.Errorf("read the last event of %s: %w", sessionKey, err)
	}
	for _, m := range last {
		if events := DecodeEvents(m); len(events) > 0 {
			return events[len(events)-1].ID, nil
		}
	}
	gone, err := rdb.HGet(ctx, k.Run(), "gone").Result()
	if errors.Is(err, redis.Nil) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read the last event of %s: %w", sessionKey, err)
	}
	id, at := Gone(gone)
	if until, err := strconv.ParseInt(end, 10, 64); err == nil && at > until {
		return "", nil
	}
	return id, nil
}

// Gone reads the field gone of a run record: the ID of the last event that purge has deleted, and its time in ms. "":
// purge has deleted none.
func Gone(field string) (id string, at int64) {
	var entry string
	var events, most int
	if n, _ := fmt.Sscan(field, &entry, &events, &most); n < 3 {
		return "", 0
	}
	ms, _, _ := strings.Cut(entry, "-")
	return eventID(entry, events-1), script.Number(ms)
}

// Place is a place in a stream.
type Place struct{ Stream, From string }

// HaveEvents reports which of the places have events after them, in one round trip. It reports true
// where Redis refused the read: the caller's own read returns that error.
func HaveEvents(ctx context.Context, rdb redis.UniversalClient, places []Place) []bool {
	looks := scripts.EventsPage.Each(ctx, rdb, len(places), func(i int) ([]string, scripts.EventsPageArgs) {
		return []string{places[i].Stream}, scripts.EventsPageArgs{After: places[i].From, Room: 0}
	})
	have := make([]bool, len(places))
	for i, look := range looks {
		have[i] = look.Err != nil || scripts.EventsPage.Result(look).More
	}
	return have
}
