package turnstile_test

import (
	"errors"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"turnstile"
	"turnstile/pkg/admin"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// repeatBench is a session with two turns, a stopped message, and a message that waits. If asks, that
// one's turn runs and asks a question.
type repeatBench struct {
	*actors.Bench
	admin     *admin.Client
	sessionID string
	ticket    string
}

func newRepeatBench(t *testing.T, asks bool) repeatBench {
	t.Helper()
	b := actors.NewBench(t)
	r := repeatBench{Bench: b, admin: admin.NewClient(b.Redis)}
	b.Say("one")
	b.Drain()
	b.Say("two")
	b.Drain()
	b.Say("stopped")
	_, err := b.Client.Stop(b.Ctx, actors.Key)
	expect.OK(t, err)
	r.sessionID = b.Info().SessionID
	r.ticket, err = r.admin.NewTicket(b.Ctx, "grant", time.Hour)
	expect.OK(t, err)
	b.Say("waits")
	if asks {
		b.Asks(b.Start(), "run make")
	}
	return r
}

// repeated is a method that changes something: a call of it, and what the same call does again. Where
// again is false that changes nothing more and returns then.
type repeated struct {
	asks  bool
	call  func(b repeatBench) error
	again bool
	then  error
}

// repeatedMethods are the methods by their names, behind which a space begins a variant.
var repeatedMethods = map[string]repeated{
	"Submit": {call: func(b repeatBench) error {
		return submitted(b.Client.Submit(b.Ctx, actors.Key, session.Message{ID: "new", Text: "x"}))
	}},
	"Submit after the last message": {call: func(b repeatBench) error {
		return submitted(b.Client.Submit(b.Ctx, actors.Key, session.Message{ID: "new", Text: "x"}, turnstile.After("waits")))
	}},
	"Submit after the last message, without an id": {then: session.ErrNotLast, call: func(b repeatBench) error {
		return submitted(b.Client.Submit(b.Ctx, actors.Key, session.Message{Text: "x"}, turnstile.After("waits")))
	}},
	"Cancel": {call: func(b repeatBench) error {
		_, _, err := b.Client.Cancel(b.Ctx, actors.Key, "waits", false)
		return err
	}},
	"Stop":  {call: func(b repeatBench) error { _, err := b.Client.Stop(b.Ctx, actors.Key); return err }},
	"Undo":  {call: func(b repeatBench) error { _, err := b.Client.Undo(b.Ctx, actors.Key); return err }, again: true},
	"Retry": {call: func(b repeatBench) error { _, err := b.Client.Retry(b.Ctx, actors.Key); return err }, again: true},
	"Rotate": {call: func(b repeatBench) error {
		_, err := b.Client.Rotate(b.Ctx, actors.Key, b.sessionID)
		return err
	}},
	"Configure": {call: func(b repeatBench) error {
		return b.Client.Configure(b.Ctx, actors.Key, session.QueueSettings{Cap: 7})
	}},
	"SetTitle":   {call: func(b repeatBench) error { return b.Client.SetTitle(b.Ctx, actors.Key, "x") }},
	"SetReplyTo": {call: func(b repeatBench) error { return b.Client.SetReplyTo(b.Ctx, actors.Key, "somewhere") }},
	"Decide": {asks: true, then: session.ErrDecided, call: func(b repeatBench) error {
		_, err := b.Client.Decide(b.Ctx, actors.Key, 1, session.Allow)
		return err
	}},
	"DecideQuestion": {asks: true, then: session.ErrDecided, call: func(b repeatBench) error {
		_, err := b.Client.DecideQuestion(b.Ctx, actors.Key, b.Info().Turn+".1", session.Allow)
		return err
	}},

	"admin.DeleteDeadLetters": {call: func(b repeatBench) error {
		_, err := b.admin.DeleteDeadLetters(b.Ctx, actors.Key, "stopped")
		return err
	}},
	"admin.Erase": {call: func(b repeatBench) error { return b.admin.Erase(b.Ctx, actors.Key) }},
	"admin.Rerun": {call: func(b repeatBench) error { _, err := b.admin.Rerun(b.Ctx, actors.Key); return err }},
	"admin.RerunMessages": {call: func(b repeatBench) error {
		_, err := b.admin.RerunMessages(b.Ctx, actors.Key, "stopped")
		return err
	}},
	"admin.MakeTemporary": {call: func(b repeatBench) error { return b.admin.MakeTemporary(b.Ctx, "fresh") }},
	"admin.NewTicket": {again: true, call: func(b repeatBench) error {
		_, err := b.admin.NewTicket(b.Ctx, "grant", time.Hour)
		return err
	}},
	"admin.RedeemTicket": {call: func(b repeatBench) error {
		_, _, err := b.admin.RedeemTicket(b.Ctx, b.ticket)
		return err
	}},
	"admin.SetDestination": {call: func(b repeatBench) error {
		return b.admin.SetDestination(b.Ctx, "hook", session.DestinationState{Paused: true})
	}},
}

// otherMethods only read, or are repeated elsewhere.
var otherMethods = []string{
	"Events", "Follow", "FollowEnd", "FollowFrom", "Message", "MessageState", "Result", "Wait",
	"admin.AllEvents", "admin.Backlog", "admin.Browse", "admin.BusySessions", "admin.CountSessions", "admin.DeadLetters", "admin.Destinations",
	"admin.Followups", "admin.LastDeadLetters", "admin.LastEventID", "admin.LastEventIDAt", "admin.Line", "admin.List",
	"admin.NextMessage", "admin.NoWorker", "admin.Outbox", "admin.Owing", "admin.ResumeRecord", "admin.RunningTurn",
	"admin.Session", "admin.SessionsWithDeadLetters", "admin.SessionsWithDeliveries", "admin.States", "admin.Tail",
	"admin.TokensToday", "admin.Transcript", "admin.TranscriptPage", "admin.TurnMessages", "admin.Workers",
	"admin.EraseTemporary",                   // pkg/admin TestRivalsBeforeEachCommand
	"admin.DropUndelivered", "admin.Redrive", // test/reference
}

// lastUse are the times at which a session was used, and is looked at again: those may change.
var lastUse = regexp.MustCompile(`(?m) updated_at="\d+"|^(turnstile:(?:sessions|owned|temporary) zset .*\[)\{\S+`)

func (b repeatBench) stored() string { return lastUse.ReplaceAllString(b.Dump(), "$1") }

// Every method of both clients does what repeatedMethods says when it is called twice with the same
// arguments.
func TestMethodsRepeated(t *testing.T) {
	t.Parallel()
	var methods []string
	for prefix, client := range map[string]reflect.Type{
		"": reflect.TypeFor[*turnstile.Client](), "admin.": reflect.TypeFor[*admin.Client](),
	} {
		for m := range client.Methods() {
			methods = append(methods, prefix+m.Name)
		}
	}
	known := slices.Clone(otherMethods)
	for name, m := range repeatedMethods {
		method, _, _ := strings.Cut(name, " ")
		known = append(known, method)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newRepeatBench(t, m.asks)
			before := b.stored()
			expect.OK(t, m.call(b))
			once := b.stored()
			expect.Equal(t, "the first call changes something", before != once, true)
			if err := m.call(b); !errors.Is(err, m.then) {
				t.Errorf("the second call: %v, want %v", err, m.then)
			}
			if m.again {
				expect.Equal(t, "the second call changes something", once != b.stored(), true)
				return
			}
			actors.Same(t, "the second call", once, b.stored())
		})
	}
	slices.Sort(methods)
	slices.Sort(known)
	expect.List(t, "methods; add new ones to repeatedMethods", slices.Compact(known), methods...)
}
