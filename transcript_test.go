package turnstile_test

import (
	"fmt"
	"slices"
	"testing"

	"turnstile"
	"turnstile/internal/protocol"
	"turnstile/internal/protocol/stream"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// A page of the transcript and the events after it have each turn once, also if turns begin or end
// before any of the page's reads.
func TestTranscriptEndsWhereItsEventsBegin(t *testing.T) {
	t.Parallel()
	const reads = 12 // with those of a new connection. Before each a rival runs once; before the 0th none does
	for _, running := range []bool{false, true} {
		for n := range reads + 1 {
			t.Run(fmt.Sprintf("running=%v/%d", running, n), func(t *testing.T) {
				t.Parallel()
				b := actors.NewBench(t)
				begin := func(id string) *protocol.Claim {
					b.Say(id)
					h := b.Start()
					noteEvent(b, h, "a thought")
					return h
				}
				b.Finish(begin("a"))
				var live *protocol.Claim
				rival := func() { live = begin("b") }
				if running {
					live = begin("b")
					b.Say("c")
					rival = func() { b.Finish(live); noteEvent(b, live, "of the next turn") }
				}
				rdb := b.BareRedis()
				rdb.AddHook(actors.BeforeNth(n, redistest.Any, rival))
				page, err := turnstile.NewClient(rdb).Session(actors.Key).Transcript(b.Ctx, turnstile.TranscriptQuery{})
				expect.OK(t, err)
				for live != nil && b.Finish(live) { // the events of a turn that still ran have their end now
				}

				turns := turnsOf(page.Entries)
				place, err := stream.ParseEventID(page.EventID)
				expect.OK(t, err)
				starts := map[string]bool{}
				entries, err := b.Redis.XRange(b.Ctx, b.Keys.Events(), "-", "+").Result()
				expect.OK(t, err)
				for _, m := range entries {
					for _, e := range stream.DecodeEvents(m) {
						id, err := stream.ParseEventID(e.ID)
						expect.OK(t, err)
						if e.Type == session.EventTurnStarted && id.After(place) {
							starts[e.Turn] = true
						}
						if e.Type == session.EventTurnEnded && id.After(place) && e.Status == session.StatusDone {
							if !starts[e.Turn] {
								t.Errorf("turn %s has no start after the page", e.Turn)
							}
							turns = append(turns, e.Turn)
						}
					}
				}
				all, err := b.Chat().Transcript(b.Ctx, turnstile.TranscriptQuery{})
				expect.OK(t, err)
				expect.List(t, "turns of the page and after it", turns, turnsOf(all.Entries)...)
			})
		}
	}
}

func turnsOf(entries []session.Entry) (turns []string) {
	for _, e := range entries {
		turns = append(turns, e.Turn)
	}
	return slices.Compact(turns)
}
