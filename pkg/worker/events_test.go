package worker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"turnstile"
	"turnstile/pkg/agent"
	"turnstile/pkg/agent/echo"
	"turnstile/pkg/session"
	"turnstile/pkg/worker"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// texts joins the text events and counts them.
func texts(events []session.Event) (joined string, n int) {
	for _, e := range events {
		if e.Type == session.EventText {
			joined += e.Text
			n++
		}
	}
	return joined, n
}

func TestFollowSeesEachPieceOnce(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"fast":            "stream=300 " + strings.Repeat("a reply that is long enough ", 40),
		"slow":            "stream=20 tick=20ms a reply that takes its time, in pieces",
		"one piece":       "hello",
		"tool first":      "tool=search stream=4 tick=30ms found it",
		"tool and pieces": "tool=search:60ms tool=read stream=50 tick=3ms " + strings.Repeat("and then ", 30),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.say("m1", text)
			var mu sync.Mutex
			var seen []session.Event
			type end struct {
				o   session.Outcome
				err error
			}
			done := make(chan end, 1)
			go func() {
				o, err := actors.Follow(r.ctx, r.client.Session(r.key), "m1", func(e session.Event) {
					mu.Lock()
					defer mu.Unlock()
					seen = append(seen, e)
				})
				done <- end{o, err}
			}()
			r.worker(echo.New())
			got := expect.Received(t, "the end", done)
			expect.OK(t, got.err)
			joined, n := texts(seen)
			expect.Equal(t, "what was followed", joined, got.o.Reply)
			_, written := texts(r.events(r.key))
			if written > 40 {
				t.Errorf("%d text events were written, they are to be coalesced", written)
			}
			// Afterwards the same events can be read again.
			var late []session.Event
			_, err := actors.Follow(r.ctx, r.client.Session(r.key), "m1", func(e session.Event) { late = append(late, e) })
			expect.OK(t, err)
			joined, again := texts(late)
			expect.Equal(t, "what is followed afterwards", joined, got.o.Reply)
			expect.Equal(t, "pieces", again, n)
		})
	}
}

func TestEventsInOrder(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newStage()
	r.worker(s)
	r.say("m1", "hello")
	a := s.next(t, "m1")
	want := []string{"turn_started"}
	for i := range 200 {
		id := fmt.Sprint("c", i)
		a.Emit(agent.Event{Type: session.EventThought, Text: id})
		a.Emit(agent.Event{Type: session.EventToolStart, Name: "t", CallID: id, Input: json.RawMessage(`{"a":"<&>"}`)})
		a.Emit(agent.Event{Type: session.EventToolEnd, CallID: id, Output: json.RawMessage(`[1]`)})
		a.text(id)
		want = append(want, "thought "+id, "tool_start "+id, "tool_end "+id, "text "+id)
	}
	a.reply("")
	o := r.ends("m1", session.StatusDone)
	expect.Equal(t, "the reply is the text after the last tool", o.Reply, "c199")
	want = append(want, "turn_ended")
	var got []string
	for _, e := range r.events(r.key) {
		line := string(e.Type)
		if id := e.CallID + e.Text; id != "" {
			line += " " + id
		}
		got = append(got, line)
		if e.Type == session.EventToolStart && string(e.Input) != `{"a":"<&>"}` {
			t.Errorf("a tool's input came as %s", e.Input)
		}
	}
	expect.List(t, "events", got, want...)
	expect.Equal(t, "entries", len(r.transcript(r.key)), 1+2*200)
}

// The log's timer may fire while a turn ends. Its batch must not come after the end, nor
// delay the next turn's events.
func TestEventsNeverFollowTheEnd(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const sessions, turns = 60, 4
	a := immediate{func(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
		turn.Emit(agent.Event{Type: session.EventThought, Text: "t"})
		turn.Emit(agent.Event{Type: session.EventText, Text: "first "})
		// The log sends after 50 ms, which is now.
		timer := time.NewTimer(50*time.Millisecond - time.Duration(turn.Fence%1000)*time.Microsecond)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		turn.Emit(agent.Event{Type: session.EventText, Text: "second"})
		return agent.Result{}, nil
	}}
	for i := range sessions {
		for j := range turns {
			r.send(fmt.Sprint(r.key, "-", i), turnstile.Message{ID: fmt.Sprint(j), Text: "x"})
		}
	}
	r.worker(a, slots(sessions))
	for i := range sessions {
		key := fmt.Sprint(r.key, "-", i)
		expect.Equal(t, "reply", r.outcomeIn(key, fmt.Sprint(turns-1)).Reply, "first second")
		ended := map[string]bool{}
		thoughts := map[string]int{}
		for _, e := range r.events(key) {
			if ended[e.Turn] {
				t.Errorf("%s after the turn's end", e.Type)
			}
			ended[e.Turn] = e.Type == session.EventTurnEnded
			if e.Type == session.EventThought {
				thoughts[e.Turn]++
			}
		}
		for turn := range ended {
			expect.Equal(t, "thoughts of a turn", thoughts[turn], 1)
		}
	}
}

// An agent emits after its end, and from several goroutines.
func TestAgentEmitsAfterItsEnd(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	stop := make(chan struct{})
	var late sync.WaitGroup
	r.worker(agent.Func(func(_ context.Context, turn *agent.Turn) (agent.Result, error) {
		for range 4 {
			late.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
						turn.Emit(agent.Event{Type: session.EventText, Text: "x"})
						time.Sleep(time.Millisecond) // the agent's pace
					}
				}
			})
		}
		return agent.Result{Text: "the reply"}, nil
	}))
	r.say("m1", "hello")
	expect.Equal(t, "reply", r.ends("m1", session.StatusDone).Reply, "the reply")
	r.say("m2", "on")
	expect.Equal(t, "reply", r.ends("m2", session.StatusDone).Reply, "the reply")
	close(stop)
	late.Wait()
	expect.List(t, "transcript", r.transcript(r.key), "user hello", "assistant the reply", "user on", "assistant the reply")
	ended := map[string]bool{}
	for _, e := range r.events(r.key) {
		if ended[e.Turn] {
			t.Errorf("%s after the turn's end", e.Type)
		}
		ended[e.Turn] = ended[e.Turn] || e.Type == session.EventTurnEnded
	}
}

// A panic of an agent ends only its turn, not the worker or other sessions.
func TestPanicKillsOnlyItsTurn(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.worker(echo.New())
	other := r.key + "-other"
	r.send(other, turnstile.Message{ID: "m1", Text: "sleep=300ms hello"})
	for i := range 10 {
		r.say(fmt.Sprint("p", i), "panic=1 x")
	}
	for i := range 10 {
		r.ends(fmt.Sprint("p", i), session.StatusFailed)
	}
	expect.Equal(t, "the other session", r.outcomeIn(other, "m1").Status, session.StatusDone)
}

// The text that an agent reads in a turn.

func TestB31_TheNoteStandsAboveTheText(t *testing.T) {
	t.Parallel()
	for name, cut := range map[string]func(r *rig){
		"drained": func(r *rig) { r.interruptTurn("m1", worker.ReasonRestart, "half") },
		"dead":    func(r *rig) { r.dies("half") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			const words = " what\n\nnow?\n"
			r.say("m1", words)
			cut(r)
			s := newStage()
			r.worker(s)
			a := s.next(t, "m1")
			if !strings.HasPrefix(a.Note, "[System note:") || strings.Count(a.Text(), "[System note:") != 1 {
				t.Errorf("note %q", a.Note)
			}
			expect.Equal(t, "what the agent reads", a.Text(), a.Note+"\n\n"+words)
			a.reply("ok")
			r.ends("m1", session.StatusDone)
		})
	}
}

func TestB35_NothingToResume(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"blanks": " hi\r\n\t", "own note": "[System note: mine]\n\n", "odd characters": "\x01\u2028ä\U0001F600</x>\\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			s := newStage()
			r.worker(s)
			for _, id := range []string{"first", "after-a-reply", "once-interrupted"} {
				if id == "once-interrupted" { // its mark is gone, but the count is not
					expect.OK(t, r.rdb.HSet(r.ctx, r.k.Resume(), "interruptions", 2, "fence", 7, "reason", "crash").Err())
				}
				r.say(id, text)
				a := s.next(t, id)
				expect.Equal(t, "note "+id, a.Note, "")
				expect.Equal(t, "what the agent reads "+id, a.Text(), text)
				a.reply("ok")
				r.ends(id, session.StatusDone)
			}
		})
	}
}
