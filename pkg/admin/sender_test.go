package admin_test

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/wire"
	"turnstile/pkg/admin"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

const (
	alice = "web/alice"
	bob   = "web/bob"
)

// says sends a message of a sender, "" for none, with its text as its ID.
func says(b *actors.Bench, key, sender, text string, options ...actors.Option) {
	b.Helper()
	m := turnstile.Message{ID: text, Text: text}
	if sender != "" {
		m.Meta = map[string]string{"sender": sender}
	}
	_, err := b.Client.Session(key).Send(b.Ctx, actors.With(m, options...))
	expect.OK(b, err)
}

func cancels(b *actors.Bench, key, id string) {
	b.Helper()
	_, err := b.Client.Session(key).Cancel(b.Ctx, id)
	expect.OK(b, err)
}

// of returns a sender's sessions, and only those that are not shared.
func of(b *actors.Bench, sender string) (all, own []*admin.SenderSession) {
	b.Helper()
	all, err := actors.Collect(admin.NewClient(b.Redis).SessionsOf(b.Ctx, sender))
	expect.OK(b, err)
	for _, s := range all {
		if !s.Shared {
			own = append(own, s)
		}
	}
	return all, own
}

// all are the keys of a sender's sessions.
func all(b *actors.Bench, sender string) (keys []string) {
	b.Helper()
	list, _ := of(b, sender)
	for _, s := range list {
		keys = append(keys, s.Session)
	}
	return keys
}

// the returns a sender's only session.
func the(b *actors.Bench, sender string) *admin.SenderSession {
	b.Helper()
	all, _ := of(b, sender)
	if len(all) != 1 {
		b.Fatalf("%d sessions of %s", len(all), sender)
	}
	return all[0]
}

// texts are the data of a session.
func texts(b *actors.Bench, s *admin.SenderSession) (list []string) {
	b.Helper()
	for d, err := range s.Data(b.Ctx) {
		expect.OK(b, err)
		switch {
		case d.Entry != nil:
			list = append(list, string(d.Entry.Role)+" "+d.Entry.Text)
		case d.Outcome != nil:
			list = append(list, string(d.State)+" "+d.Message.Text+" "+string(d.Outcome.Status))
		default:
			list = append(list, string(d.State)+" "+d.Message.Text)
		}
	}
	return list
}

func TestSessionsOf(t *testing.T) {
	t.Parallel()
	eachKind(t, func(b *actors.Bench) {
		says(b, actors.Key, alice, "first")
		b.Drain()
		_, err := b.Chat().NewTranscript(b.Ctx)
		expect.OK(b, err)
		says(b, actors.Key, alice, "second")
		b.Drain()
		says(b, actors.Key, alice, "later", actors.Delay(time.Hour))
		says(b, actors.Key, alice, "waits")
		says(b, actors.Key, alice, "stopped")
		cancels(b, actors.Key, "stopped")
		for key, senders := range map[string][]string{
			"a:shared": {alice, bob}, "b:unnamed": {alice, ""}, "c:dead": {alice, bob}, "d:bob": {bob}, "e:token": {"web"}, "f:other": {"web/alice2"}, "g:delayed": {alice, bob},
		} {
			for _, sender := range senders {
				var o []actors.Option
				if key == "g:delayed" {
					o = append(o, actors.Delay(time.Hour))
				}
				says(b, key, sender, key+strings.ReplaceAll(sender, "/", "."), o...)
			}
		}
		cancels(b, "c:dead", "c:deadweb.bob")

		all, own := of(b, alice)
		var keys []string
		for _, s := range all {
			keys = append(keys, fmt.Sprint(s.Session, " ", s.Shared))
		}
		expect.List(b, "sessions", keys, "a:shared true", actors.Key+" false", "b:unnamed true", "c:dead true", "g:delayed true")
		expect.Equal(b, "not shared", len(own), 1)
		var entries, messages []string
		for _, text := range texts(b, own[0]) {
			if text[:4] == "user" || text[:4] == "assi" {
				entries = append(entries, text)
			} else {
				messages = append(messages, text)
			}
		}
		if first, second := []string{"user first", "assistant re: first"}, []string{"user second", "assistant re: second"}; entries[0] == first[0] {
			expect.List(b, "entries", entries, append(first, second...)...)
		} else { // transcripts are in no order
			expect.List(b, "entries", entries, append(second, first...)...)
		}
		expect.List(b, "messages", messages, "completed first done", "scheduled later", "completed second done", "archived stopped stopped", "pending waits")
		expect.List(b, "of a shared one", texts(b, all[0]), "pending a:sharedweb.alice")
		expect.List(b, "of a shared one with a dead letter", texts(b, all[3]), "pending c:deadweb.alice")

		if err := all[0].Erase(b.Ctx); !errors.Is(err, session.ErrInvalid) {
			b.Errorf("a shared session: %v", err)
		}
		expect.OK(b, own[0].Erase(b.Ctx))
		expect.List(b, "left", traces(b))
		for sender, n := range map[string]int{alice: 4, bob: 4, "web": 1, "nobody": 0} {
			left, _ := of(b, sender)
			expect.Equal(b, "left of "+sender, len(left), n)
		}
		for _, err := range admin.NewClient(b.Redis).SessionsOf(b.Ctx, "") {
			expect.Equal(b, "without a sender", errors.Is(err, session.ErrInvalid), true)
		}
	})
}

// A message of somebody else that waits or has run since the look is not deleted, whenever it comes.
func TestEraseOfASenderBesideAnother(t *testing.T) {
	t.Parallel()
	for _, runs := range []bool{false, true} {
		t.Run(fmt.Sprint("runs ", runs), func(t *testing.T) {
			t.Parallel()
			commands := 0
			for came := true; came; commands++ {
				t.Run(fmt.Sprint("command ", commands+1), func(t *testing.T) { came = anotherBefore(t, commands+1, runs) })
			}
			if commands < 15 {
				t.Errorf("an erase has %d commands", commands-1)
			}
		})
	}
}

// anotherBefore erases alice's session, and has bob write before the n-th command. It returns whether
// there was one.
func anotherBefore(t *testing.T, n int, runs bool) (came bool) {
	b := actors.NewBench(t)
	other := actors.BenchOn(t, b.BareRedis())
	says(b, actors.Key, alice, "old")
	b.Drain()
	says(b, actors.Key, alice, "waits")
	refused := false
	b.Redis.AddHook(actors.BeforeNth(n, func(redis.Cmder) bool { return true }, func() {
		came = true
		says(other, actors.Key, bob, "late")
		if runs {
			other.Drain()
		}
	}))
	for s, err := range admin.NewClient(b.Redis).SessionsOf(b.Ctx, alice) {
		expect.OK(t, err)
		err = s.Erase(b.Ctx)
		refused = errors.Is(err, session.ErrBusy) || errors.Is(err, session.ErrInvalid)
		if !refused {
			expect.OK(t, err)
		}
	}
	if !came || !refused { // it came after the last look at the messages: it begins a new session
		expect.List(t, "left of alice", all(other, alice))
	}
	if came {
		found := texts(b, the(other, bob))
		expect.List(t, "of bob", found[:1], map[bool]string{false: "pending late", true: "user late"}[runs])
	}
	return came
}

// A lost reply of the script makes the client send it again.
func TestEraseOfASenderSentTwice(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	says(b, actors.Key, alice, "a")
	b.Drain()
	b.Redis.AddHook(actors.SendTwice(actors.Script("erase"), func() {}))
	expect.OK(t, the(b, alice).Erase(b.Ctx))
	expect.List(t, "left", traces(b))
}

// Data leaves out what another sender has caused since the look.
func TestDataIsOfTheLook(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	says(b, actors.Key, alice, "a")
	b.Drain()
	s := the(b, alice)
	says(b, actors.Key, bob, "b")
	b.Drain()
	expect.List(t, "data", texts(b, s), "user a", "assistant re: a", "completed a done")
}

// inState returns alice's message in a state, and those with which it is.
func inState(b *actors.Bench, state session.MessageState) (running bool) {
	b.Helper()
	switch state {
	case session.MessagePending:
		says(b, actors.Key, alice, "m")
	case session.MessageScheduled:
		says(b, actors.Key, alice, "m", actors.Delay(time.Hour))
	case session.MessageRetry:
		says(b, actors.Key, alice, "m")
		stop := b.StockServer(func(context.Context, *asynq.Task) error { return errors.New("flaky") })
		expect.Soon(b, "the retry", func() bool { return b.Redis.ZCard(b.Ctx, b.Keys.Retry()).Val() == 1 })
		stop()
	case session.MessageRunning:
		says(b, actors.Key, alice, "m")
		b.Start()
		return true
	case session.MessageCompleted:
		says(b, actors.Key, alice, "m")
		b.Drain()
	case session.MessageArchived:
		says(b, actors.Key, alice, "m")
		cancels(b, actors.Key, "m")
	default:
		b.Fatalf("state %s: say how a message gets there", state)
	}
	return false
}

// states are the constants of session.MessageState that a stored message can have.
func states(t *testing.T) (all []session.MessageState) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../session/message.go", nil, 0)
	expect.OK(t, err)
	ast.Inspect(file, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok && fmt.Sprint(v.Type) == "MessageState" {
			text, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
			expect.OK(t, err)
			all = append(all, session.MessageState(text))
		}
		return true
	})
	return slices.DeleteFunc(all, func(s session.MessageState) bool { // only views have them
		return s == session.MessageGone || s == session.MessageCollected || s == session.MessageSteered
	})
}

// A sender is found, exported and forgotten whatever the state of the only message is. Only a turn that runs is in the way.
func TestForgetInEachState(t *testing.T) {
	t.Parallel()
	for _, state := range states(t) {
		t.Run(string(state), func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			running := inState(b, state)
			s := the(b, alice)
			expect.Equal(t, "shared", s.Shared, false)
			found := false
			for d, err := range s.Data(b.Ctx) {
				expect.OK(t, err)
				found = found || d.State == state && d.Message.ID == "m"
			}
			expect.Equal(t, "exported", found, true)
			if err := s.Erase(b.Ctx); running {
				expect.Equal(t, "busy", errors.Is(err, session.ErrBusy), true)
			} else {
				expect.OK(t, err)
				expect.List(t, "left", traces(b))
			}
		})
	}
}

func TestEraseOfARunningSender(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	says(b, actors.Key, alice, "runs")
	h := b.Start()
	says(b, actors.Key, alice, "waits")
	before := b.Dump()
	if err := the(b, alice).Erase(b.Ctx); !errors.Is(err, session.ErrBusy) {
		t.Errorf("%v", err)
	}
	actors.Same(t, "a refused erase", before, b.Dump())
	expect.List(t, "data", texts(b, the(b, alice)), "running runs", "pending waits")
	for b.Finish(h) {
	}
	expect.OK(t, the(b, alice).Erase(b.Ctx))
	expect.List(t, "left", traces(b))
}

// A steer joins a turn that ran before the look.
func TestEraseOfASenderWhomAnotherSteers(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t, actors.Line(session.QueueSettings{Mode: session.ModeSteer}))
	says(b, actors.Key, alice, "runs")
	h := b.Start()
	s := the(b, alice)
	says(b, actors.Key, bob, "steers")
	steered, err := h.Steer(b.Ctx)
	expect.OK(t, err)
	expect.Equal(t, "steered", len(steered), 1)
	b.Finish(h)
	if err := s.Erase(b.Ctx); !errors.Is(err, session.ErrBusy) {
		t.Errorf("%v", err)
	}
	expect.List(t, "of bob", texts(b, the(b, bob)), "completed steers")
}

func TestEraseOfAnUndeliveredSender(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	says(b, actors.Key, alice, "waits", actors.ReplyTo(wire.Route{To: "chat"}))
	before := b.Dump()
	if err := the(b, alice).Erase(b.Ctx); !errors.Is(err, session.ErrUndelivered) {
		t.Errorf("%v", err)
	}
	actors.Same(t, "a refused erase", before, b.Dump())
	expect.OK(t, the(b, alice).Erase(b.Ctx, admin.EraseUndelivered()))
	expect.List(t, "left", traces(b))
}

// A script deletes 500 messages at a time. A message of somebody else between two of them stays.
func TestEraseOfASenderInBatches(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	fill := func() {
		for i := range 700 {
			says(b, actors.Key, alice, fmt.Sprint("m", i))
		}
	}
	fill()
	other := actors.BenchOn(t, b.BareRedis())
	b.Redis.AddHook(actors.BeforeNth(2, actors.Script("erase"), func() { says(other, actors.Key, bob, "late") }))
	if err := the(b, alice).Erase(b.Ctx); !errors.Is(err, session.ErrBusy) {
		t.Errorf("%v", err)
	}
	expect.List(t, "waiting", b.Waiting(), "late")
	expect.Equal(t, "dead letters left", b.Info().DeadLetters, 200)
	cancels(b, actors.Key, "late")
	expect.OK(t, b.Client.Operate(actors.Key).Erase(b.Ctx))
	fill()
	expect.OK(t, the(b, alice).Erase(b.Ctx))
	expect.List(t, "left", traces(b))
}

// A message and an entry that cannot be read are nobody's, so their session is shared.
func TestUnreadableIsSomebodyElses(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	says(b, actors.Key, alice, "a")
	b.Drain()
	expect.Equal(t, "shared", the(b, alice).Shared, false)
	b.EnqueueTask("another:type", "x", "foreign")
	expect.Equal(t, "shared with a message", the(b, alice).Shared, true)
	expect.OK(t, b.Inspector().DeleteTask(rediskey.Queue(actors.Key), "foreign"))
	expect.Equal(t, "shared again", the(b, alice).Shared, false)
	expect.OK(t, b.Redis.RPush(b.Ctx, b.Keys.Transcript(b.Info().TranscriptID), "{").Err())
	expect.Equal(t, "shared with an entry", the(b, alice).Shared, true)
}

func TestSessionsOfThousands(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	const n = 2_500
	_, err := b.Redis.Pipelined(b.Ctx, func(p redis.Pipeliner) error {
		for i := range n {
			p.RPush(b.Ctx, fmt.Sprintf("turnstile:{session:s%d}:transcript:t", i), `{"role":"user","text":"hi","meta":{"sender":"web/alice"}}`, `{"role":"assistant","text":"hi"}`)
		}
		return nil
	})
	expect.OK(t, err)
	erased := 0
	for s, err := range admin.NewClient(b.Redis).SessionsOf(b.Ctx, alice) {
		expect.OK(t, err)
		if erased == 0 {
			expect.List(t, "data", texts(b, s), "user hi", "assistant hi")
		}
		expect.OK(t, s.Erase(b.Ctx))
		erased++
	}
	expect.Equal(t, "erased", erased, n)
	expect.Equal(t, "keys left", b.Redis.DBSize(b.Ctx).Val(), 0)
}
