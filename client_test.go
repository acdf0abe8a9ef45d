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
	"turnstile/internal/chat/receipt"
	"turnstile/internal/http/store"
	"turnstile/internal/protocol"
	"turnstile/pkg/admin"
	"turnstile/pkg/session"
	"turnstile/test/acl"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

func TestMain(m *testing.M) { actors.Main(m) }

// A sender's moves need no more of Redis than docs/security.md gives its user.
func TestSuiteUnderACL(t *testing.T) {
	t.Parallel()
	acl.Suite(t,
		"TestStopWhoseSenderDies", "TestB75_Undo", "TestMessagesCap", "TestDestinationCapWhileItsReadHangs")
}

// repeatBench is a session with two turns, a stopped message, and a message that waits. If asks, that
// one's turn runs and asks a question.
type repeatBench struct {
	*actors.Bench
	admin        *admin.Client
	transcriptID string
	ticket       string
}

func newRepeatBench(t *testing.T, asks bool) repeatBench {
	t.Helper()
	b := actors.NewBench(t)
	r := repeatBench{Bench: b, admin: admin.NewClient(b.Redis)}
	b.Say("stopped")
	_, err := b.Client.Session(actors.Key).Stop(b.Ctx)
	expect.OK(t, err)
	b.Say("one")
	b.Drain()
	b.Say("two")
	b.Drain()
	r.transcriptID = b.Info().TranscriptID
	r.ticket, err = store.New(b.Redis).NewTicket(b.Ctx, "grant", time.Hour)
	expect.OK(t, err)
	b.Say("waits")
	if asks {
		b.Asks(b.Start(), "run make")
	}
	return r
}

// repeated is a call that changes something, and the effect of repeating it. If again is false, the
// repetition changes nothing and returns then.
type repeated struct {
	asks  bool
	waits bool // for a value, instead
	call  func(b repeatBench) error
	again bool
	then  error
}

// repeatedMethods are the calls by method name. A variant's name follows after a space.
var repeatedMethods = map[string]repeated{
	"Send": {call: func(b repeatBench) error {
		return errOf(receipt.Input(b.Ctx, b.Client.Session(actors.Key), turnstile.Message{ID: "new", Text: "x"}))
	}},
	"Send after the last message": {call: func(b repeatBench) error {
		return errOf(receipt.Input(b.Ctx, b.Client.Session(actors.Key), turnstile.Message{ID: "new", Text: "x", After: "waits"}))
	}},
	"Send after the last message, without an id": {then: session.ErrNotLast, call: func(b repeatBench) error {
		return errOf(receipt.Input(b.Ctx, b.Client.Session(actors.Key), turnstile.Message{Text: "x", After: "waits"}))
	}},
	"Cancel": {call: func(b repeatBench) error {
		_, _, err := actors.Cancel(b.Ctx, b.Client.Session(actors.Key), "waits", false)
		return err
	}},
	"CancelTurn": {call: func(b repeatBench) error { return b.Chat().CancelTurn(b.Ctx, "waits") }},
	"Command":    {again: true, call: func(b repeatBench) error { _, err := b.Chat().Command(b.Ctx, "/new"); return err }},
	"Command with an id": {call: func(b repeatBench) error {
		_, err := b.Chat().Command(b.Ctx, "/new", turnstile.CommandConfig{ID: "new"})
		return err
	}},
	"Stop":  {call: func(b repeatBench) error { _, err := b.Client.Session(actors.Key).Stop(b.Ctx); return err }},
	"Undo":  {call: func(b repeatBench) error { _, err := b.Client.Session(actors.Key).Undo(b.Ctx); return err }, again: true},
	"Retry": {call: func(b repeatBench) error { _, err := b.Client.Session(actors.Key).Retry(b.Ctx); return err }, again: true},
	"NewTranscript": {call: func(b repeatBench) error {
		_, err := b.Client.Session(actors.Key).NewTranscript(b.Ctx, turnstile.TranscriptConfig{Replaces: b.transcriptID})
		return err
	}},
	"SetQueue": {call: func(b repeatBench) error {
		return b.Client.Session(actors.Key).SetQueue(b.Ctx, session.QueueSettings{Cap: 7})
	}},
	"SetTitle":   {call: func(b repeatBench) error { return b.Client.Session(actors.Key).SetTitle(b.Ctx, "x") }},
	"SetReplyTo": {call: func(b repeatBench) error { return b.Client.Session(actors.Key).SetReplyTo(b.Ctx, "somewhere") }},
	"Decide": {asks: true, then: session.ErrDecided, call: func(b repeatBench) error {
		_, err := b.Client.Session(actors.Key).Decide(b.Ctx, "1", session.Allow)
		return err
	}},
	"Give": {waits: true, call: func(b repeatBench) error {
		return b.Client.Session(actors.Key).Give(b.Ctx, turnstile.Value{Key: "payment", JSON: []byte(`1`)})
	}},
	"Decide by its id": {asks: true, then: session.ErrDecided, call: func(b repeatBench) error {
		_, err := b.Client.Session(actors.Key).Decide(b.Ctx, b.Info().Turn+".1", session.Allow)
		return err
	}},

	"admin.Session.DeleteDeadLetters": {call: func(b repeatBench) error {
		_, err := b.admin.Session(actors.Key).DeleteDeadLetters(b.Ctx, "stopped")
		return err
	}},
	"admin.Session.Erase": {call: func(b repeatBench) error { return b.admin.Session(actors.Key).Erase(b.Ctx) }},
	"admin.Session.Rerun": {call: func(b repeatBench) error {
		_, err := b.admin.Session(actors.Key).Rerun(b.Ctx, admin.All)
		return err
	}},
	"admin.Session.Rerun of some": {call: func(b repeatBench) error {
		_, err := b.admin.Session(actors.Key).Rerun(b.Ctx, "stopped")
		return err
	}},
	"store.DropResult": {call: func(b repeatBench) error {
		_, err := store.New(b.Redis).DropResult(b.Ctx, actors.Key, "one")
		return err
	}},
	"store.MakeTemporary": {call: func(b repeatBench) error { return store.New(b.Redis).MakeTemporary(b.Ctx, "fresh") }},
	"store.NewTicket": {again: true, call: func(b repeatBench) error {
		_, err := store.New(b.Redis).NewTicket(b.Ctx, "grant", time.Hour)
		return err
	}},
	"store.RedeemTicket": {call: func(b repeatBench) error {
		_, _, err := store.New(b.Redis).RedeemTicket(b.Ctx, b.ticket)
		return err
	}},
	"admin.ApplyTenants": {call: func(b repeatBench) error {
		return b.admin.ApplyTenants(b.Ctx, []byte(`{"tenants": {"*": {"running": 2}}}`))
	}},
	"admin.PauseDestination": {call: func(b repeatBench) error { return b.admin.PauseDestination(b.Ctx, "hook", "why") }},
}

// otherMethods only read, or are repeated elsewhere.
var otherMethods = []string{
	"As", "EventPages", "Events", "Info", "Key", "Message", "Transcript", "Wait", "client.HasWorker", "client.Session",
	"admin.Backlog", "admin.CountSessions", "admin.Destinations", "admin.Limits", "admin.Page", "admin.Ping", "admin.RemoveTenants", "admin.Scale", "admin.Session", "admin.Sessions", "admin.SessionsOf", "admin.Workers",
	"store.AllEvents", "store.Created", "store.LastEventID", "store.LastEventIDAt", "store.LastMessage", "store.TokensToday",
	"admin.Session.As", "admin.Session.Audit", "admin.Session.DeadLetters", "admin.Session.Deliveries", "admin.Session.FollowUps", "admin.Session.Info", "admin.Session.Key",
	"admin.Session.LastDeadLetters", "admin.Session.Queue", "admin.Session.Turn", "admin.Session.Undelivered",
	"store.EraseTemporary", "admin.EnableDestination", // pkg/admin TestRivalsBeforeEachCommand
	"admin.Session.DeleteUndelivered", "admin.Session.Redrive", // test/reference
}

// lastUse are the times at which a session was used, and is looked at again: those may change.
var lastUse = regexp.MustCompile(`(?m) updated_at="\d+"|^(turnstile:(?:sessions|owned|temporary) zset .*\[)\{\S+`)

func (b repeatBench) stored() string { return lastUse.ReplaceAllString(b.Dump(), "$1") }

// Every method of both clients, called twice with the same arguments, behaves as repeatedMethods
// has it.
func TestMethodsRepeated(t *testing.T) {
	t.Parallel()
	var methods []string
	for prefix, client := range map[string]reflect.Type{
		"": reflect.TypeFor[*turnstile.Session](), "client.": reflect.TypeFor[*turnstile.Client](), "admin.": reflect.TypeFor[*admin.Client](),
		"admin.Session.": reflect.TypeFor[*admin.Session](), "store.": reflect.TypeFor[*store.Store](),
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
			if m.waits {
				h := b.Start()
				_, err := h.Journal(b.Ctx, protocol.JournalWrite{HasSteps: true, Messages: actors.MessageIDs(h), Steps: map[string]string{"s": `{"state":"ended"}`}})
				expect.OK(t, err)
				_, err = h.WaitFor(b.Ctx, "payment", "secret", false, 0)
				expect.OK(t, err)
			}
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
