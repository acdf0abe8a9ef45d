package worker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/internal/chat/receipt"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/pkg/worker"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
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

// insistent is an agent that repeats what fails: a step at once, and then one after words, a tool and a notice.
func insistent(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
	insist := func(call func() error) {
		for range 3 {
			if call() == nil {
				return
			}
		}
	}
	step := func(s agent.StepSpec) {
		insist(func() error { _, err := turn.StartStep(ctx, s); return err })
		insist(func() error { return turn.EndStep(ctx, s, ok("1")) })
	}
	step(spec("a"))
	turn.Emit(agent.Event{Type: session.EventText, Text: "words"})
	turn.Emit(agent.Event{Type: session.EventToolStart, CallID: "t", Name: "look"})
	turn.Emit(agent.Event{Type: session.EventToolEnd, CallID: "t", Output: []byte("1")})
	step(spec("b"))
	turn.Emit(agent.Event{Type: session.EventText, Text: "and more"})
	turn.Emit(agent.Event{Type: session.EventNotice, Text: "so far"}) // a last text is stored only if its batch was due
	return agent.Result{}, nil
}

// shown is a stream without what differs between two runs of the same turn: a line for each event, and one for texts in
// a row.
func shown(events []session.Event) (lines []string) {
	text := ""
	for _, e := range append(events, session.Event{}) {
		if e.Type == session.EventText {
			text += e.Text
			continue
		}
		if text != "" {
			lines, text = append(lines, "text "+text), ""
		}
		if e.Type != "" {
			lines = append(lines, fmt.Sprint(e.Type, " ", e.CallID, " ", e.Name, " ", string(e.Output), e.Text, e.Error, " ", e.Messages, e.Status))
		}
	}
	return lines
}

// A write of a turn that fails, or whose reply is lost, whichever it is, leaves followers the same events, in the same
// order, as they come and as they are stored. Only a batch of events that Redis refuses is lost, without the turn's start.
func TestFollowersSeeTheSameWhicheverWriteFails(t *testing.T) {
	t.Parallel()
	type stream struct{ followed, stored, transcript []string }
	life := func(t *testing.T, early bool, name string, nth int64, fault func(*redistest.Faults, redistest.Match)) (s stream, hit bool) {
		var f redistest.Faults
		var n atomic.Int64
		r, sent := newRig(t), make(chan struct{}, 1000)
		r.worker(agent.Func(func(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
			if early && turn.Messages[0].ID == "m1" { // else the journal has the turn's first events
				turn.Emit(agent.Event{Type: session.EventNotice, Text: "begun"})
				<-sent
			}
			return insistent(ctx, turn)
		}), faulty(&f), checkpointEvery(time.Hour), slots(1))
		r.send("before", turnstile.Message{ID: "m0", Text: "hello"}) // Redis knows the scripts
		expect.Equal(t, "before", r.outcomeIn("before", "m0").Status, session.StatusDone)
		fault(&f, func(cmd redis.Cmder) bool {
			if script("emit")(cmd) {
				sent <- struct{}{}
			}
			return script(name)(cmd) && n.Add(1) == nth
		})
		r.say("m1", "hello")
		var seen []session.Event
		o, err := receipt.Follow(r.ctx, r.client.Session(r.key), "m1", "", receipt.Shown(func(e session.Event) { seen = append(seen, e) }))
		expect.OK(t, err)
		expect.Equal(t, "status", o.Status, session.StatusDone)
		return stream{shown(seen), shown(r.events(r.key)), r.transcript(r.key)}, n.Load() >= nth
	}
	refused := func(f *redistest.Faults, m redistest.Match) {
		f.FailBefore(m, 1, redistest.ReplyError("ERR of the test"))
	}
	lost := func(f *redistest.Faults, m redistest.Match) { f.FailBefore(m, 1, redistest.ErrLostReply) }
	unheard := func(f *redistest.Faults, m redistest.Match) { f.LoseReply(m, 1) }
	for _, early := range []bool{false, true} {
		var want stream
		t.Run(fmt.Sprint("undisturbed early ", early), func(t *testing.T) { want, _ = life(t, early, "none", 1, lost) })
		for name, fault := range map[string]func(*redistest.Faults, redistest.Match){
			"journal refused": refused, "journal lost": lost, "journal unheard": unheard, "emit refused": refused, "emit lost": lost,
			"emit unheard": unheard, "finish lost": lost, "finish unheard": unheard,
		} {
			t.Run(fmt.Sprint(name, " early ", early), func(t *testing.T) {
				t.Parallel()
				script, _, _ := strings.Cut(name, " ")
				for nth, hit := int64(1), true; hit; nth++ {
					t.Run(fmt.Sprint(nth), func(t *testing.T) {
						got, more := life(t, early, script, nth, fault)
						want := want
						if name == "emit refused" {
							want.followed, want.stored = within(got.followed, want.followed), within(got.stored, want.stored)
						}
						expect.List(t, "followed", got.followed, want.followed...)
						expect.List(t, "stored", got.stored, want.stored...)
						expect.List(t, "transcript", got.transcript, want.transcript...)
						hit = more && !t.Failed()
					})
				}
			})
		}
	}
}

// within are the wanted lines without those that are missing, but with the turn's start and end.
func within(got, want []string) []string {
	return slices.DeleteFunc(slices.Clone(want), func(line string) bool {
		return !slices.Contains(got, line) && !strings.HasPrefix(line, "turn_")
	})
}
