package admin_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/internal/http/store"
	"turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/admin"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// several are operations that make several calls to Redis. Each begins with a session that has had a
// turn and has two dead letters.
var several = map[string]func(b *actors.Bench, rdb redis.UniversalClient) error{
	"erase temporary": func(b *actors.Bench, rdb redis.UniversalClient) error {
		_, _, err := store.New(rdb).EraseTemporary(b.Ctx, 0)
		return err
	},
	"erase": func(b *actors.Bench, rdb redis.UniversalClient) error {
		return admin.NewClient(rdb).Session(actors.Key).Erase(b.Ctx)
	},
	"rerun": func(b *actors.Bench, rdb redis.UniversalClient) error {
		_, err := admin.NewClient(rdb).Session(actors.Key).Rerun(b.Ctx, admin.All)
		return err
	},
	"rerun messages": func(b *actors.Bench, rdb redis.UniversalClient) error {
		_, err := admin.NewClient(rdb).Session(actors.Key).Rerun(b.Ctx, "a", "b")
		return err
	},
	"title": func(b *actors.Bench, rdb redis.UniversalClient) error {
		return turnstile.NewClient(rdb).Session(actors.Key).SetTitle(b.Ctx, "x")
	},
	"stop": func(b *actors.Bench, rdb redis.UniversalClient) error {
		_, err := turnstile.NewClient(rdb).Session(actors.Key).Stop(b.Ctx)
		return err
	},
	"rotate": func(b *actors.Bench, rdb redis.UniversalClient) error {
		_, err := turnstile.NewClient(rdb).Session(actors.Key).NewTranscript(b.Ctx)
		return err
	},
	"retry": func(b *actors.Bench, rdb redis.UniversalClient) error {
		_, err := turnstile.NewClient(rdb).Session(actors.Key).Retry(b.Ctx)
		return err
	},
	"send": func(b *actors.Bench, rdb redis.UniversalClient) error {
		_, err := turnstile.NewClient(rdb).Session(actors.Key).Send(b.Ctx, turnstile.Message{ID: "own", Text: "own"})
		return err
	},
}

// rivals are the actions of others meanwhile. Each sends the message "new" last. "a turn ends" is
// of a turn that runs when the operation begins, and "a turn begins" of one that still runs at its
// end.
var rivals = map[string]func(b *actors.Bench){
	"sends":         func(*actors.Bench) {},
	"reruns":        func(b *actors.Bench) { _, _ = b.Client.Operate(actors.Key).Rerun(b.Ctx, admin.All) },
	"erases":        func(b *actors.Bench) { _ = b.Client.Operate(actors.Key).Erase(b.Ctx) },
	"rotates":       func(b *actors.Bench) { _, _ = b.Client.Session(actors.Key).NewTranscript(b.Ctx) },
	"undoes":        func(b *actors.Bench) { _, _ = b.Client.Session(actors.Key).Undo(b.Ctx) },
	"stops":         func(b *actors.Bench) { _, _ = b.Client.Session(actors.Key).Stop(b.Ctx) },
	"runs all":      func(b *actors.Bench) { _, _ = b.Client.Operate(actors.Key).Rerun(b.Ctx, admin.All) },
	"a turn ends":   func(*actors.Bench) {},
	"a turn begins": func(b *actors.Bench) { b.Say("runs") },
}

// beforeEachCommand runs a rival before each command of an operation, in a separate test. run
// reports whether it came: an operation ends at some n.
func beforeEachCommand(t *testing.T, run func(b *actors.Bench, n int) (came bool)) {
	t.Helper()
	n, came := 0, true
	for came && !t.Failed() {
		n++
		t.Run(fmt.Sprint("before command ", n), func(t *testing.T) { came = run(actors.NewBench(t), n) })
	}
	expect.Equal(t, "commands to stop before", n > 1, true)
}

// rivalled returns a client that runs a rival before its n-th command, and whether it has run.
func rivalled(b *actors.Bench, n int, rival func()) (own *redis.Client, came *bool) {
	b.Helper()
	own, came = b.BareRedis(), new(bool)
	own.AddHook(actors.BeforeNth(n, redistest.Any, func() {
		*came = true
		rival()
	}))
	return own, came
}

// A rival before any command of an operation loses no message: its message waits where a worker
// finds it, or was stopped or erased as a whole, and runs once. The operation's result holds.
func TestRivalsBeforeEachCommand(t *testing.T) {
	t.Parallel()
	expect.Unraced(t)
	for name := range several {
		for other := range rivals {
			t.Run(name+", "+other, func(t *testing.T) {
				t.Parallel()
				beforeEachCommand(t, func(b *actors.Bench, n int) bool { return rivalBefore(b, n, name, other) })
			})
		}
	}
}

func rivalBefore(b *actors.Bench, n int, operation, rival string) bool {
	b.Helper()
	expect.OK(b, store.New(b.Redis).MakeTemporary(b.Ctx, actors.Key))
	b.Say("first")
	b.Drain()
	b.SayAll("a", "b")
	_, err := b.Client.Session(actors.Key).Stop(b.Ctx)
	expect.OK(b, err)
	_, _, err = store.New(b.Redis).EraseTemporary(b.Ctx, 0) // the first look
	expect.OK(b, err)
	var running []*protocol.Claim
	claim := func() {
		running, err = b.Worker.Claim(b.Ctx, []string{actors.Key})
		expect.OK(b, err)
	}
	runs := map[string]int{}
	finish := func() {
		for _, h := range running {
			for more := true; more; {
				runs[h.Turn().Message.ID]++
				more = b.Finish(h)
			}
		}
		running = nil
	}
	if rival == "a turn ends" {
		b.Say("runs")
		claim()
	}

	own, came := rivalled(b, n, func() {
		rivals[rival](b)
		finish()
		if rival == "runs all" || rival == "a turn begins" {
			claim()
		}
		if rival == "runs all" {
			finish()
		}
		b.Say("new")
	})
	failed := several[operation](b, own) // it may be refused
	if !*came {
		return false
	}
	dead := b.State("a") + b.State("b")
	switch {
	case operation == "erase" && failed == nil:
		expect.Equal(b, "erased", dead, "")
	case strings.HasPrefix(operation, "erase"), rival == "erases":
	case strings.HasPrefix(operation, "rerun") && rival != "stops":
		expect.Equal(b, "dead letters", strings.Contains(dead, "archived"), false)
	case operation == "retry": // of b, the last that was stopped
		expect.Equal(b, "kept", b.State("a") != "", true)
	default:
		expect.Equal(b, "kept", b.State("a") != "" && b.State("b") != "", true)
	}
	state, _, _, err := actors.MessageState(b.Ctx, b.Client.Session(actors.Key), "new")
	switch {
	case operation == "stop" && state == "archived":
		return true
	case operation == "erase" && errors.Is(err, session.ErrNotFound):
		expect.List(b, "left", slices.DeleteFunc(traces(b), func(name string) bool {
			return strings.Contains(name, ":call:") // a rival's, without text: it expires in five minutes
		}))
		return true
	}
	expect.OK(b, err)
	if len(running) == 0 {
		expect.Equal(b, "state", state, "pending")
		for _, index := range []string{rediskey.Ready, rediskey.Owned, rediskey.Sessions} {
			if !b.IsIn(index, actors.Key) {
				b.Errorf("%s does not name the session: %s", index, b.Dump())
			}
		}
	}
	for finish(); b.IsIn(rediskey.Ready, actors.Key); finish() {
		b.Pop()
		claim()
	}
	for id, n := range runs {
		expect.Equal(b, "runs of "+id, n, 1)
	}
	expect.Equal(b, "status", b.Outcome("new").Status, session.StatusDone)
	return true
}
