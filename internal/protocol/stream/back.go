package stream

import (
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/pkg/session"
)

// Back reads the events of a turn backwards, from its end to the start of its first run, and returns them
// oldest first. read returns the page of entries before a place, newest first; an empty one is the last.
// since is when the turn began; zero: unknown. started: the start was found. After an error of read the events
// are those that were read.
func Back(turn string, since time.Time, to string, read func(to string) ([]redis.XMessage, error)) (events []session.Event, started bool, err error) {
	first := turn
	for !started {
		page, err := read(to)
		if err != nil || len(page) == 0 {
			return chain(events, first, turn), false, err
		}
		for _, m := range page {
			if id, err := ParseEventID(m.ID); err == nil && first == turn && !since.IsZero() && id.At() < since.UnixMilli() {
				return chain(events, first, turn), false, nil // its start is not stored
			}
			for _, e := range slices.Backward(DecodeEvents(m)) {
				if started || e.Turn == "" || e.Turn != turn && first == turn {
					continue
				}
				events = append(events, e)
				if e.Type == session.EventTurnStarted {
					if e.Turn == turn && e.Continues != "" {
						first = e.Continues
					}
					started = e.Turn == first
				}
			}
		}
		to = "(" + page[len(page)-1].ID
	}
	return chain(events, first, turn), true, nil
}

// chain returns the events of the runs that go on from the first one, oldest first. events has the newest
// first.
func chain(events []session.Event, first, last string) []session.Event {
	runs := map[string]bool{first: true, last: true}
	for _, e := range events {
		if e.Type == session.EventTurnStarted && e.Continues == first {
			runs[e.Turn] = true
		}
	}
	slices.Reverse(events)
	return slices.DeleteFunc(events, func(e session.Event) bool { return !runs[e.Turn] })
}
