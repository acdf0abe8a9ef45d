package turnlog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/lease"
	"turnstile/internal/protocol/wire"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/test/expect"
)

// life is the life of a turn: how often it is interrupted, what happens in it, and which write of its journal fails.
type life struct {
	runs, waits, steers int

	goesOn bool // the agent
	dies   bool // the worker, at the end of a run; else the turn leaves it
	fails  int  // the number of the write; 0: none
	how    fault
}

// fault is what happens to a write.
type fault int

const (
	refused fault = iota // by Redis
	lost                 // with the lease, before it is carried out
	unheard              // likewise, after it
)

// Whatever happens to a turn, its transcript and its followers have each item once and in order, waits have secrets of
// their own that stay the same, no time of a run is forgotten, and who steered has no say.
func TestLives(t *testing.T) {
	t.Parallel()
	n := 0
	for runs := 1; runs <= 4; runs++ {
		for waits := 1; waits <= 3; waits++ {
			for steers := range 3 {
				for kind := range 12 {
					goesOn, dies, how := kind&1 > 0, kind&2 > 0, fault(kind/4)
					for fails, more := 0, true; more && !t.Failed(); fails++ {
						l := life{runs, waits, steers, goesOn, dies, fails, how}
						synctest.Test(t, func(t *testing.T) { more = l.live(t) })
						n++
					}
				}
			}
		}
	}
	t.Log(n, "lives")
}

// items is how many pairs of words and tools the agent makes.
const items = 3

// live lives it, and reports whether the write that was to fail came.
func (l life) live(t *testing.T) (failed bool) {
	defer func() {
		if t.Failed() {
			t.Logf("in %+v", l)
		}
	}()
	r := &redis{life: l, entries: map[int]session.Entry{}, steps: map[string]string{}, secrets: map[string]string{}}
	var end Content
	for run := 0; ; run++ {
		r.dead, r.began, r.run = false, time.Now(), run
		log := r.claim(t)
		cut := items
		if run < l.runs-1 {
			cut = (run + 1) * items / l.runs
		}
		r.works(t, log, cut)
		if cut < items && l.dies {
			r.die()
		}
		log.Stop()
		if cut == items && !r.dead {
			end = log.Finished(agent.Result{})
			break
		}
		if !r.dead {
			expect.OK(t, log.StoreRest())
		}
	}
	entries := end.Entries
	for i := len(entries) - 1; i > 0; i-- {
		if entries[i].Interrupted { // what came before was not gone on from
			entries = entries[i+1:]
			break
		}
	}
	var made, want, users []string
	for _, e := range end.Entries {
		if e.Role == session.RoleUser {
			users = append(users, e.Message)
		}
	}
	for _, e := range entries {
		switch e.Role {
		case session.RoleAssistant:
			made = append(made, e.Text)
		case session.RoleTool:
			made = append(made, e.Tool.CallID+string(e.Tool.Output))
		}
	}
	for i := range items {
		want = append(want, fmt.Sprint("words ", i), fmt.Sprintf("tool %d%d", i, i))
	}
	want = append(want, "goodbye")
	expect.List(t, "transcript", made, want...)
	expect.List(t, "shown", follow(r.shown, end.Reply), want...)
	slices.Sort(users)
	expect.List(t, "users", users, []string{"m", "s0", "s1"}[:1+l.steers]...)
	expect.Equal(t, "secrets", len(slices.Compact(slices.Sorted(maps.Values(r.secrets)))), l.waits)
	return l.fails == 0 || r.writes >= l.fails
}

// redis is a Store: what it has of the turn, and what followers were shown.
type redis struct {
	life
	run    int
	began  time.Time
	writes int

	mu   sync.Mutex
	dead bool // the worker has no lease any more

	last    protocol.JournalWrite
	entries map[int]session.Entry
	steps   map[string]string
	ran     time.Duration // of all runs, until their last writes
	ranThis time.Duration
	first   string // the run from which the turn goes on
	lead    int    // how many messages that one began with: the senders of others have no say
	shown   []session.Event
	secrets map[string]string // by the waits' keys
}

// writeTakes is how long a write takes: other things happen meanwhile.
const writeTakes = 300 * time.Millisecond

var errRefused = errors.New("refused")

func (r *redis) die() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dead = true
}

func (r *redis) Emit(_ context.Context, events []session.Event) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dead {
		return lease.ErrLost
	}
	r.shown = append(r.shown, events...)
	return nil
}

func (r *redis) Journal(_ context.Context, w protocol.JournalWrite) (origin string, err error) {
	ran := time.Since(r.began)
	time.Sleep(writeTakes)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writes++
	fails := r.writes == r.fails
	switch {
	case fails && r.how == refused:
		return "", errRefused
	case fails && r.how == lost:
		r.dead = true
	}
	if r.dead {
		return "", lease.ErrLost
	}
	maps.Copy(r.entries, w.Entries)
	maps.Copy(r.steps, w.Steps)
	r.last, r.shown = w, append(r.shown, w.Events...)
	r.ranThis = ran
	if fails {
		r.dead = true
		return "", lease.ErrLost
	}
	return "origin", nil
}

func (*redis) Title(context.Context, string) error                    { return nil }
func (*redis) StoreState(context.Context, json.RawMessage, int) error { return nil }
func (*redis) Progressed()                                            {}

// claim begins a run of the turn, as a worker does.
func (r *redis) claim(t *testing.T) *Log {
	turn := &protocol.ClaimedTurn{ID: fmt.Sprint("t", r.run), Started: r.began, StartedAt: r.began}
	turn.Message.ID = "m"
	for i, id := range r.last.Messages {
		if i > 0 {
			turn.Collected = append(turn.Collected, protocol.Taken{Message: wire.Message{ID: id}})
		}
	}
	if r.last.HasSteps && r.goesOn {
		turn.Continues, turn.Keeps = r.first, r.last.Keeps
	} else {
		r.first, r.lead = turn.ID, len(turn.Messages())
	}
	r.shown = append(r.shown, session.Event{Type: session.EventTurnStarted, Turn: turn.ID, Continues: turn.Continues, Keeps: turn.Keeps})
	l := New(Config{
		Turn: turn, Store: r, Context: t.Context(), GoesOn: r.goesOn, CheckpointEvery: 1300 * time.Millisecond,
		Logger: slog.New(slog.DiscardHandler), Contain: func(string) {}, Began: func() {}, Used: func(session.Usage) {},
	})
	if r.last.Count == 0 {
		return l
	}
	j := &protocol.Journal{Lead: r.last.Lead, Messages: r.last.Messages, Origin: "origin", Steps: r.steps}
	if r.last.HasSteps {
		j.Closed, j.Ran = r.last.Closed, r.last.Ran
	}
	for i := range r.last.Count {
		j.Entries = append(j.Entries, r.entries[i])
	}
	l.TakeOver(j)
	switch {
	case !r.last.HasSteps:
		l.Inherit(j)
	case r.goesOn:
		l.GoOn(j)
		expect.Equal(t, "who has a say", len(l.Lead()), r.lead)
	}
	if r.last.HasSteps {
		r.ran += r.ranThis
		expect.Equal(t, "time of earlier runs", l.Ran(), r.ran)
	}
	r.ranThis = 0
	return l
}

// works is the agent's run, until it has made so many items.
func (r *redis) works(t *testing.T, l *Log, until int) {
	insist := func(call func() error) {
		for range 3 {
			if time.Sleep(time.Second); call() == nil {
				return
			}
		}
	}
	for i := range until {
		steer := fmt.Sprint("s", i)
		if i < r.steers && !slices.ContainsFunc(l.turn.Messages(), func(m protocol.Taken) bool { return m.Message.ID == steer }) {
			l.Steered(wire.Message{ID: steer})
		}
		spec := agent.StepSpec{Key: fmt.Sprint("tool ", i), RunAgain: true}
		if i < r.waits {
			spec.Permit = func(context.Context) error {
				insist(func() error {
					secret, err := l.BeginWait(spec.Key)
					if was, ok := r.secrets[spec.Key]; err == nil && ok {
						expect.Equal(t, "secret of "+spec.Key, secret, was)
					} else if err == nil {
						r.secrets[spec.Key] = secret
					}
					return err
				})
				return nil
			}
		}
		if !r.goesOn || !slices.ContainsFunc(l.made, func(e item) bool { return e.Tool != nil && e.Tool.CallID == spec.Key }) {
			l.Emit(agent.Event{Type: session.EventThought, Text: "..."})
			l.Emit(agent.Event{Type: session.EventText, Text: "words "})
			time.Sleep(100 * time.Millisecond)
			l.Emit(agent.Event{Type: session.EventText, Text: fmt.Sprint(i)})
		}
		var step agent.StepRecord
		insist(func() (err error) { step, err = l.StartStep(t.Context(), spec); return err })
		if step.State != agent.StepDone {
			insist(func() error { return l.EndStep(t.Context(), spec, agent.StepEnd{Output: []byte(fmt.Sprint(i))}) })
		}
	}
	if until == items {
		l.Emit(agent.Event{Type: session.EventText, Text: "goodbye"})
		time.Sleep(time.Second)
	}
}
