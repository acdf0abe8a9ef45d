package admin_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"turnstile"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/http/store"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// A message that comes after the check of a temporary session and before the script is not erased.
// Neither is one that has run meanwhile.
func TestEraseTemporaryBesideASender(t *testing.T) {
	t.Parallel()
	for name, meanwhile := range map[string]func(b *actors.Bench){
		"accepted": func(b *actors.Bench) { b.Say("new") },
		"ended":    func(b *actors.Bench) { b.Say("new"); b.Drain() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachKind(t, func(b *actors.Bench) {
				expect.OK(b, store.New(b.Redis).MakeTemporary(b.Ctx, actors.Key))
				b.Say("old")
				b.Drain()
				expect.OK(b, b.Redis.HSet(b.Ctx, b.Keys.Run(), "ended_at", 1).Err())          // long ago
				expect.OK(b, b.Redis.ZIncrBy(b.Ctx, rediskey.Temporary, 1, actors.Key).Err()) // as after the first check
				var once sync.Once
				b.Redis.AddHook(actors.Before(actors.Script("erase"), func() { once.Do(func() { meanwhile(b) }) }))
				erased, _, err := store.New(b.Redis).EraseTemporary(b.Ctx, time.Hour)
				expect.OK(b, err)
				expect.Equal(b, "erased", erased, 0)
				state, _, _, err := actors.MessageState(b.Ctx, b.Client.Session(actors.Key), "new")
				expect.OK(b, err)
				expect.Equal(b, "the message is there", state == "pending" || state == "completed", true)
				if at := b.Redis.ZScore(b.Ctx, rediskey.Temporary, actors.Key).Val(); at < float64(time.Now().UnixMilli()) {
					t.Errorf("the next look is at %f", at)
				}
			})
		})
	}
}

// Of two programs that look at once, one erases the first hundred and the other the rest.
func TestEraseTemporaryIsShared(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	const sessions = 150
	for i := range sessions {
		b.Redis.ZAdd(b.Ctx, rediskey.Temporary, redis.Z{Score: 1, Member: fmt.Sprint("chat:", i)})
	}
	var scripts atomic.Int64
	other := 0
	b.Redis.AddHook(actors.Before(actors.Script("erase"), func() {
		if scripts.Add(1) > 1 {
			return
		}
		var err error
		other, _, err = store.New(b.Redis).EraseTemporary(b.Ctx, time.Hour)
		expect.OK(b, err)
	}))
	own, _, err := store.New(b.Redis).EraseTemporary(b.Ctx, time.Hour)
	expect.OK(b, err)
	expect.Equal(t, "erased by one", own, 100)
	expect.Equal(t, "erased by the other", other, 50)
	expect.Equal(t, "left", b.Redis.ZCard(b.Ctx, rediskey.Temporary).Val(), 0)
}

// A session that exists cannot be made temporary. One that is temporary can be again.
func TestMakeTemporaryWhatExists(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("kept")
	if err := store.New(b.Redis).MakeTemporary(b.Ctx, actors.Key); !errors.Is(err, session.ErrInvalid) {
		t.Errorf("a session that exists: %v", err)
	}
	expect.Equal(t, "marked", b.IsIn(rediskey.Temporary, actors.Key), false)
	expect.OK(t, store.New(b.Redis).MakeTemporary(b.Ctx, "other"))
	_, err := b.Client.Session("other").Send(b.Ctx, turnstile.Message{Text: "x"})
	expect.OK(t, err)
	expect.OK(t, store.New(b.Redis).MakeTemporary(b.Ctx, "other"))
}

// A session stays if its first message comes during MakeTemporary, unless that message is of
// another call that has made the session temporary.
func TestRivalsOfMakeTemporary(t *testing.T) {
	t.Parallel()
	run := func(b *actors.Bench) { b.Say("new"); b.Drain() }
	for name, c := range map[string]struct {
		rival     func(b *actors.Bench)
		temporary bool
	}{
		"a sender":      {run, false},
		"the same call": {func(b *actors.Bench) { expect.OK(b, store.New(b.Redis).MakeTemporary(b.Ctx, actors.Key)); run(b) }, true},
		"an erase":      {func(b *actors.Bench) { run(b); expect.OK(b, b.Client.Operate(actors.Key).Erase(b.Ctx)) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			beforeEachCommand(t, func(b *actors.Bench, n int) bool {
				own, came := rivalled(b, n, func() { c.rival(b) })
				err := store.New(own).MakeTemporary(b.Ctx, actors.Key)
				if !*came {
					return false
				}
				expect.Equal(b, "refused", errors.Is(err, session.ErrInvalid), !c.temporary)
				expect.Equal(b, "marked", b.IsIn(rediskey.Temporary, actors.Key), c.temporary)
				for range 2 {
					b.Pass(2 * time.Millisecond) // since the turn, and since the look
					_, _, err = store.New(b.Redis).EraseTemporary(b.Ctx, 0)
					expect.OK(b, err)
				}
				expect.Equal(b, "kept", b.State("new") == "completed", !c.temporary)
				return true
			})
		})
	}
}
