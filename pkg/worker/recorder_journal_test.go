package worker_test

import (
	"context"
	"fmt"
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
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

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
	turn.Emit(agent.Event{Type: session.EventNotice, Text: "so far"})
	turn.Emit(agent.Event{Type: session.EventText, Text: "and more"})
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
