package admin_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"turnstile"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// A turn that runs between the look at the keys and the script has a transcript that the look did
// not see.
func TestEraseAfterAnotherTurn(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	useAll(b)
	options, err := redis.ParseURL(redistest.URL(t))
	expect.OK(t, err)
	bare := redis.NewClient(options)
	defer bare.Close()
	var once sync.Once
	b.Redis.AddHook(actors.Before(actors.Script("erase"), func() {
		once.Do(func() {
			other := actors.BenchOn(t, bare)
			_, err := other.Client.Session(actors.Key).NewTranscript(b.Ctx)
			expect.OK(t, err)
			other.Drain()
		})
	}))
	expect.OK(t, b.Client.Operate(actors.Key).Erase(b.Ctx))
	expect.List(t, "left", traces(b))
}

// A message that comes at any moment of an erase is found later, or erased.
func TestEraseWhileASenderSends(t *testing.T) {
	t.Parallel()
	isErase := actors.Script("erase")
	for name, c := range map[string]struct {
		match redistest.Match
		there bool
	}{
		"before the script":  {isErase, false},
		"after the script":   {redistest.Named("zrem"), true},
		"before it is found": {redistest.Named("exists"), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachKind(t, func(b *actors.Bench) {
				useAll(b)
				sender := actors.NewClient(b.Redis)
				var once sync.Once
				b.Redis.AddHook(actors.Before(c.match, func() {
					once.Do(func() {
						_, err := sender.Session(actors.Key).Send(b.Ctx, turnstile.Message{ID: "new", Text: "new"})
						expect.OK(b, err)
					})
				}))
				expect.OK(b, b.Client.Operate(actors.Key).Erase(b.Ctx))
				newOrNothing(b, c.there)
			})
		})
	}
}

// The same with a real sender: no interleaving leaves a message that no worker finds, or half of
// one.
func TestEraseBesideSenders(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	for round := range 40 {
		b.Say(fmt.Sprintf("old-%d", round))
		b.Drain()
		b.Pop()
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := b.Client.Session(actors.Key).Send(b.Ctx, turnstile.Message{ID: "new", Text: "new"})
			expect.OK(b, err)
		})
		err := b.Client.Operate(actors.Key).Erase(b.Ctx)
		wg.Wait()
		expect.OK(b, err)
		if len(b.Waiting()) > 0 {
			newOrNothing(b, true)
		} else {
			for _, name := range traces(b) {
				if strings.Contains(name, "{") {
					b.Errorf("left of the message that is gone: %s", name)
				}
			}
		}
		expect.OK(b, b.Client.Operate(actors.Key).Erase(b.Ctx))
		expect.List(b, "left", traces(b))
	}
}

// A session that is used while it is being erased stays known to recovery.
func TestEraseFindsATurnThatBeganMeanwhile(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	b.Drain()
	other := actors.NewClient(b.Redis)
	done := false
	b.Redis.AddHook(actors.Behind(actors.Script("erase"), func() {
		if done {
			return
		}
		done = true
		_, err := other.Session(actors.Key).Send(b.Ctx, turnstile.Message{ID: "late", Text: "late"})
		expect.OK(t, err)
		b.Claim()
	}))
	if err := b.Client.Operate(actors.Key).Erase(b.Ctx); err != nil && !errors.Is(err, session.ErrBusy) {
		t.Fatalf("erased: %v", err)
	}
	b.Die() // before its first renewal
	b.Sweep()
	b.Reap()
	expect.List(t, "runs", b.Drain(), "late")
	if !b.IsIn("turnstile:sessions", actors.Key) {
		t.Error("no sweep will find the session")
	}
}

// newOrNothing checks that the message "new" begins the session, or that nothing is left.
func newOrNothing(b *actors.Bench, there bool) {
	b.Helper()
	if !there {
		expect.List(b, "left", traces(b))
		return
	}
	expect.List(b, "in line", b.Waiting(), "new")
	expect.List(b, "popped", b.Pop(), actors.Key)
	for _, index := range []string{rediskey.Owned, rediskey.Sessions} {
		if !b.IsIn(index, actors.Key) {
			b.Errorf("%s does not name the session: %s", index, b.Dump())
		}
	}
	expect.List(b, "drained", b.Drain(), "new")
	expect.Equal(b, "status", b.Outcome("new").Status, session.StatusDone)
	expect.Equal(b, "entries", len(b.Transcript(b.Info().TranscriptID)), 2)
}
