package worker_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/pkg/worker"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// Invalid JSON of an agent is stored as text, and the turn continues.
func TestInvalidJSONIsStoredAsText(t *testing.T) {
	t.Parallel()
	r, s, a := inTurn(t)
	nan := session.Usage{InputTokens: 3, CostUSD: math.NaN()}
	for _, e := range []agent.Event{
		{Type: session.EventToolStart, Name: "tool", CallID: "1", Input: json.RawMessage(`{"truncated`)},
		{Type: session.EventToolEnd, Name: "tool", CallID: "1", Output: json.RawMessage("plain \xff text")},
		{Type: session.EventRaw, Data: json.RawMessage(`oops`)},
		{Type: session.EventUsage, Usage: &nan},
		{Type: session.EventState, Data: json.RawMessage(`[`)},
	} {
		a.Emit(e)
	}
	a.reply("done")
	r.ends("m1", session.StatusDone)
	entries, err := actors.Transcript(r.ctx, r.client.Session(r.key), a.TranscriptID)
	expect.OK(t, err)
	expect.Equal(t, "entries", len(entries), 3)
	expect.Equal(t, "input", string(entries[1].Tool.Input), `"{\"truncated"`)
	expect.Equal(t, "output", string(entries[1].Tool.Output), `"plain \ufffd text"`)
	expect.Equal(t, "usage", *entries[2].Usage, session.Usage{InputTokens: 3})
	r.say("m2", "again")
	next := s.next(t, "m2")
	expect.Equal(t, "state", string(next.State), `"["`)
	next.reply("done")
	r.ends("m2", session.StatusDone)
}

// An agent cannot write Turnstile's own events, such as the end of its turn or a question that nobody
// can decide.
func TestOnlyAnAgentsEventsAreStored(t *testing.T) {
	t.Parallel()
	r, _, a := inTurn(t)
	for _, e := range []agent.Event{
		{Type: session.EventTurnEnded},
		{Type: session.EventQuestionAsked, Name: "deploy", CallID: "1"},
		{Type: session.EventSteered},
		{Type: "progress", Text: "50%"},
		{Text: "without a type"},
		{Type: session.EventNotice, Text: "an agent's"},
	} {
		a.Emit(e)
	}
	a.reply("done")
	r.ends("m1", session.StatusDone)
	var types []string
	for _, e := range r.events(r.key) {
		types = append(types, string(e.Type))
	}
	expect.Equal(t, "events", strings.Join(types, " "), "turn_started notice turn_ended")
}

// If Redis always refuses a turn's end, the turn does not run again and again: it fails, and the
// session continues.
func TestEndThatCannotBeStoredFailsTheTurn(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T) (*rig, func(id string) *act){
		"kept": func(t *testing.T) (*rig, func(string) *act) {
			r, s := newRig(t), newWarmStage()
			r.worker(s)
			return r, func(id string) *act { return s.next(t, id) }
		},
		"not kept": func(t *testing.T) (*rig, func(string) *act) {
			r, s := newRig(t), newStage()
			r.worker(s, with(func(o *worker.Config) { o.MaxAttempts = 3 }))
			return r, func(id string) *act { return s.next(t, id) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, next := open(t)
			r.say("m1", "hello")
			a := next("m1")
			transcript := r.k.Transcript(a.TranscriptID)
			expect.OK(t, r.rdb.Set(r.ctx, transcript, "of a wrong type", 0).Err())
			a.reply("one")
			r.ends("m1", session.StatusFailed)
			if why := r.archivedAs("m1"); !strings.Contains(why, "the turn's entries could not be stored") || !strings.Contains(why, "WRONGTYPE") {
				t.Errorf("archived as %q", why)
			}
			expect.OK(t, r.rdb.Del(r.ctx, transcript).Err())
			r.say("m2", "again")
			a = next("m2")
			expect.Equal(t, "attempt", a.Attempt, 1)
			expect.Equal(t, "history", len(a.History), 0)
			a.reply("two")
			r.ends("m2", session.StatusDone)
		})
	}
}
