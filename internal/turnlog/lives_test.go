package turnlog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
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

// life is the life of a turn: how often it is interrupted, what happens in it, and which write of it fails.
type life struct {
	runs, starters, steers int
	has                    [items]permit // the items' tools

	goesOn bool // the agent
	dies   bool // the worker, at the end of a run; else the turn leaves it
	fails  int  // the number of the write of the journal or of events; 0: none
	how    fault
}

// items is how many pairs of words and tools the agent makes.
const items = 3

// permit is what a tool needs before it begins.
type permit int

const (
	nothingMore  permit = iota
	value               // of a program
	decision            // which comes while the run waits
	lateDecision        // which comes while the turn is parked
	permits      = iota // how many there are
)

// fault is what happens to a write.
type fault int

const (
	refused fault = iota // by Redis
	lost                 // with the lease, before it is carried out
	unheard              // likewise, after it
	faults  = iota
)

// Whatever happens to a turn, its transcript and its followers have each item once and in order, waits have secrets of
// their own that stay the same, no time of a run is forgotten, and who steered decides nothing.
func TestLives(t *testing.T) {
	t.Parallel()
	n := 0
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 0))
		l := life{runs: 1 + r.IntN(4), starters: 1 + r.IntN(2), steers: r.IntN(items), goesOn: r.IntN(2) == 0, dies: r.IntN(2) == 0}
		for i := range l.has {
			l.has[i] = permit(r.IntN(permits))
		}
		for l.how = range fault(faults) {
			more := true
			for l.fails = 0; more && !t.Failed(); l.fails++ {
				synctest.Test(t, func(t *testing.T) { more = l.live(t) })
				n++
			}
		}
	}
	t.Log(n, "lives")
}

// live lives it, and reports whether the write that was to fail came.
func (l life) live(t *testing.T) (failed bool) {
	defer func() {
		if t.Failed() {
			t.Logf("in %+v", l)
		}
	}()
	r := &redis{life: l, entries: map[int]session.Entry{}, steps: map[string]string{}, secrets: map[string]string{}, decided: map[string]string{}}
	for i := range l.starters {
		r.messages = append(r.messages, message("starts", i))
	}
	var end Content
	for run := 0; ; run++ {
		r.dead, r.parked, r.began, r.run = false, false, time.Now(), run
		log := r.claim(t)
		cut := items
		if run < l.runs-1 {
			cut = (run + 1) * items / l.runs
		}
		r.works(t, log, cut)
		if (cut < items || r.parked) && l.dies {
			r.die()
		}
		log.Stop()
		if cut == items && !r.dead && !r.parked {
			end = log.Finished(agent.Result{})
			break
		}
		if !r.dead {
			expect.OK(t, log.StoreRest())
		}
		time.Sleep(time.Hour) // it waits for its next run
	}
	entries := end.Entries
	for i := len(entries) - 1; i > 0; i-- {
		if entries[i].Interrupted { // what came before was not gone on from
			entries = entries[i+1:]
			break
		}
	}
	var made, want, shown, users, who []string
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
			made = append(made, e.Tool.CallID+string(e.Tool.Output)+e.Tool.By)
		}
	}
	waits := 0
	for i, has := range l.has {
		words, tool, by := fmt.Sprint("words ", i), fmt.Sprintf("tool %d%d", i, i), ""
		switch has {
		case decision, lateDecision:
			by = r.messages[l.starters-1].ID
			fallthrough
		case value:
			waits++
		}
		want, shown = append(want, words, tool+by), append(shown, words, tool)
	}
	for _, m := range r.messages {
		who = append(who, m.ID)
	}
	slices.Sort(users)
	slices.Sort(who)
	expect.List(t, "transcript", made, append(want, "goodbye")...)
	expect.List(t, "shown", follow(r.shown, end.Reply), append(shown, "goodbye")...)
	expect.List(t, "users", users, who...)
	expect.Equal(t, "messages", len(users), l.starters+l.steers)
	expect.Equal(t, "secrets", len(slices.Compact(slices.Sorted(maps.Values(r.secrets)))), waits)
	return l.fails == 0 || r.writes >= l.fails
}

// message is one of a turn, by a sender of the same name.
func message(what string, n int) wire.Message {
	id := fmt.Sprint(what, n)
	return wire.Message{ID: id, Meta: map[string]string{"sender": id}}
}

// redis is a Store: what it has of the turn, and what followers were shown.
type redis struct {
	life
	run    int
	began  time.Time
	writes int
	parked bool

	mu   sync.Mutex
	dead bool // the worker has no lease any more

	messages []wire.Message // of the turn
	last     protocol.JournalWrite
	entries  map[int]session.Entry
	steps    map[string]string
	ran      time.Duration // of all runs, until their last writes
	ranThis  time.Duration
	first    string // the run from which the turn goes on
	shown    []session.Event
	secrets  map[string]string // by the waits' keys
	decided  map[string]string // who has, by the questions' keys
}

// writeTakes is how long a write takes: other things happen meanwhile.
const writeTakes = 300 * time.Millisecond

var errRefused = errors.New("refused")

func (r *redis) die() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dead = true
}

// write carries out a write, unless it is the one that fails. Followers never see events that Redis refuses: what they
// see then is compared as if they did.
func (r *redis) write(ofEvents bool, carryOut func()) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writes++
	fails := r.writes == r.fails
	switch {
	case fails && r.how == refused:
		if ofEvents {
			carryOut()
		}
		return errRefused
	case fails && r.how == lost:
		r.dead = true
	}
	if r.dead {
		return lease.ErrLost
	}
	carryOut()
	if fails {
		r.dead = true
		return lease.ErrLost
	}
	return nil
}

func (r *redis) Emit(_ context.Context, events []session.Event) error {
	return r.write(true, func() { r.shown = append(r.shown, events...) })
}

func (r *redis) Journal(_ context.Context, w protocol.JournalWrite) (origin string, err error) {
	ran := time.Since(r.began)
	time.Sleep(writeTakes)
	return "origin", r.write(false, func() {
		maps.Copy(r.entries, w.Entries)
		maps.Copy(r.steps, w.Steps)
		r.last, r.shown = w, append(r.shown, w.Events...)
		r.ranThis = ran
	})
}

func (*redis) Title(context.Context, string) error                    { return nil }
func (*redis) StoreState(context.Context, json.RawMessage, int) error { return nil }
func (*redis) Progressed()                                            {}

// claim begins a run of the turn, as a worker does.
func (r *redis) claim(t *testing.T) *Log {
	turn := &protocol.ClaimedTurn{ID: fmt.Sprint("t", r.run), Started: r.began, StartedAt: r.began}
	for i, m := range r.messages {
		turn.Collected = append(turn.Collected, protocol.Taken{Message: m, Steer: i >= r.starters})
	}
	turn.Taken, turn.Collected = turn.Collected[0], turn.Collected[1:]
	if r.last.HasSteps && r.goesOn {
		turn.Continues, turn.Keeps = r.first, r.last.Keeps
	} else {
		r.first = turn.ID
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
	if r.last.HasSteps { // else no time is stored: each run has the whole limit
		j.Closed, j.Ran = r.last.Closed, r.last.Ran
		r.ran += r.ranThis
	}
	r.ranThis = 0
	for i := range r.last.Count {
		j.Entries = append(j.Entries, r.entries[i])
	}
	l.TakeOver(j)
	switch {
	case !r.last.HasSteps:
		l.Inherit(j)
	case r.goesOn:
		l.GoOn(j)
	}
	expect.Equal(t, "time of earlier runs", l.Ran(), r.ran)
	return l
}

// works is the agent's run, until it has made so many items.
func (r *redis) works(t *testing.T, l *Log, until int) {
	insist := func(call func() error) {
		for range 3 {
			if time.Sleep(time.Second); call() == nil || r.parked {
				return
			}
		}
	}
	for i := range until {
		if i < r.steers {
			r.steer(l, message("steers", i))
		}
		spec := agent.StepSpec{Key: fmt.Sprint("tool ", i), RunAgain: true}
		if r.has[i] != nothingMore {
			spec.Permit = func(context.Context) error {
				insist(func() error { return r.begins(t, l, spec.Key) })
				return r.asks(t, l, spec.Key, r.has[i])
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
		if r.parked {
			return
		}
		if step.State != agent.StepDone {
			insist(func() error { return l.EndStep(t.Context(), spec, agent.StepEnd{Output: []byte(fmt.Sprint(i))}) })
		}
	}
	if until == items {
		l.Emit(agent.Event{Type: session.EventText, Text: "goodbye"})
		time.Sleep(time.Second)
	}
}

// steer makes a message a part of the turn, and the agent takes it, unless it has it.
func (r *redis) steer(l *Log, m wire.Message) {
	r.mu.Lock()
	defer r.mu.Unlock()
	is := func(other wire.Message) bool { return other.ID == m.ID }
	if !r.dead && !slices.ContainsFunc(r.messages, is) {
		r.messages = append(r.messages, m)
	}
	if !l.has(m.ID) && !slices.ContainsFunc(l.Lead(), func(other protocol.Taken) bool { return is(other.Message) }) {
		l.Steered(m)
	}
}

// begins begins a tool's wait.
func (r *redis) begins(t *testing.T, l *Log, key string) error {
	secret, err := l.BeginWait(key)
	if was, ok := r.secrets[key]; err == nil && ok {
		expect.Equal(t, "secret of "+key, secret, was)
	} else if err == nil {
		r.secrets[key] = secret
	}
	return err
}

// asks asks whether a tool may run. Of those who may decide, who wrote last does.
func (r *redis) asks(t *testing.T, l *Log, key string, has permit) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if has == value || r.dead {
		return nil
	}
	by, before := r.decided[key]
	if !before {
		for _, m := range l.turn.Starters() {
			by = m.Message.Meta["sender"]
		}
		if r.decided[key] = by; has == lateDecision {
			expect.Equal(t, "it may park", l.MayPark(true), true)
			r.parked = true
			return agent.ErrParked
		}
	}
	l.Decided(key, protocol.Decided{Decision: session.Allow, By: by})
	return nil
}
