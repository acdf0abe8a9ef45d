package board

import (
	"strconv"
	"strings"
	"time"

	"turnstile/pkg/session"
)

// entry is an entry of the transcript.
type entry struct {
	session.Entry
	Said words         // Text
	Ends bool          // it is the last one of its turn on the page
	Took time.Duration // from the turn's claim to this entry; 0: unknown
}

// shownEntries returns a page of entries.
func shownEntries(list []session.Entry) []entry {
	all := make([]entry, len(list))
	for i, e := range list {
		all[i] = entry{Entry: e, Ends: e.Turn != "" && (i+1 == len(list) || list[i+1].Turn != e.Turn)}
		if all[i].Ends {
			all[i].Took = took(e.Turn, e.At.Time)
		}
	}
	return all
}

// took returns the time between a turn's claim and another time. The turn's ID has the claim's
// time, in ms by Redis' clock.
func took(turn string, at time.Time) time.Duration {
	claimed, err := strconv.ParseInt(turn[strings.LastIndexByte(turn, '-')+1:], 10, 64)
	if d := at.Sub(time.UnixMilli(claimed)); err == nil && d >= 0 && d < 365*24*time.Hour {
		return d
	}
	return 0
}

// lasted formats a duration for people.
func lasted(d time.Duration) string {
	switch {
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + " ms"
	case d < time.Minute:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s"
	}
	return d.Round(time.Second).String()
}

// used returns the sum of what the turns of these entries and events used.
func used(entries []entry, events []session.Event) *session.Usage {
	var sum session.Usage
	for _, e := range entries {
		if e.Usage != nil {
			sum = sum.Plus(*e.Usage)
		}
	}
	for _, e := range events {
		if e.Usage != nil {
			sum = sum.Plus(*e.Usage)
		}
	}
	return &sum
}
