package actors

import (
	"context"
	"errors"
	"time"

	"turnstile/internal/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// NothingLeft checks that nothing runs and nothing waits.
func (b *Bench) NothingLeft(when string) {
	b.Helper()
	if n := b.Redis.Exists(b.Ctx, b.Keys.Sentinel(), b.Keys.Pending(), b.Keys.Active(), b.Keys.Lease(), b.Keys.Followups()).Val(); n != 0 {
		b.Errorf("%s: %d of sentinel, pending, active, lease and follow-ups are left", when, n)
	}
}

func (b *Bench) Find() (entered int) {
	b.Helper()
	n, err := b.Worker.Find(b.Ctx)
	expect.OK(b, err)
	return n
}

// LoseIndexes removes the session from the indexes, as Unregister and Forget, an Erase, or an empty
// Redis do.
func (b *Bench) LoseIndexes() {
	expect.OK(b, b.Redis.SRem(b.Ctx, rediskey.AllQueues, rediskey.Queue(Key)).Err())
	for _, index := range []string{rediskey.Sessions, rediskey.Ready, rediskey.Owned, rediskey.Due} {
		expect.OK(b, b.Redis.Del(b.Ctx, index).Err())
	}
}

// MakeOld makes the session one that was not used for long.
func (b *Bench) MakeOld() {
	long := time.Now().Add(-2 * time.Hour).UnixMilli()
	for name, field := range map[string]string{b.Keys.Record(): "updated_at", b.Keys.Run(): "ended_at"} {
		if b.Redis.Exists(b.Ctx, name).Val() == 1 {
			b.Redis.HSet(b.Ctx, name, field, long)
		}
	}
	b.Overdue(rediskey.Sessions)
}

// Listed reports whether asynqmon lists a session.
func (b *Bench) Listed(session string) bool {
	b.Helper()
	listed, err := b.Redis.SIsMember(b.Ctx, rediskey.AllQueues, rediskey.Queue(session)).Result()
	expect.OK(b, err)
	return listed
}

// StopAndDie stops as a sender that dies after a call that matches.
func (b *Bench) StopAndDie(match redistest.Match) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Ctx)
	defer cancel()
	dying := b.BareRedis()
	dying.AddHook(Behind(match, cancel))
	if _, err := NewClient(dying).Stop(ctx, Key); !errors.Is(err, context.Canceled) {
		b.Fatalf("the stop of a sender who dies: %v", err)
	}
}

// Work runs all ready sessions, as workers do, and returns the messages' ids.
func (b *Bench) Work() (ids []string) {
	b.Helper()
	for b.IsIn(rediskey.Ready, Key) {
		b.Redis.Del(b.Ctx, rediskey.Ready)
		ids = append(ids, b.Drain()...)
	}
	return ids
}

// StopEnded checks that n messages are archived, and none is left of a stop.
func (b *Bench) StopEnded(n int) {
	b.Helper()
	expect.Equal(b, "archived", b.Info().Archived, n)
	expect.Equal(b, "put aside", b.Redis.LLen(b.Ctx, b.Keys.Stopped()).Val(), 0)
	expect.Equal(b, "marked", b.Redis.HGet(b.Ctx, b.Keys.Run(), "stopping").Val(), "")
	expect.List(b, "the line", b.Waiting())
}

// WaitFor waits for a message's end in the background, from now on.
func (b *Bench) WaitFor(id string) <-chan session.Outcome {
	got := make(chan session.Outcome, 1)
	go func() {
		defer close(got)
		o, err := b.Client.Wait(b.Ctx, Key, id)
		if err != nil && !errors.Is(err, context.Canceled) {
			b.Errorf("wait for %s: %v", id, err)
		}
		got <- o
	}()
	return got
}

// Pop takes the ready sessions without waiting: go-redis blocks for no less than a second.
func (b *Bench) Pop() []string {
	b.Helper()
	if others, err := b.Worker.OthersWait(b.Ctx); err != nil || !others {
		expect.OK(b, err)
		return nil
	}
	sessions, err := b.Worker.Pop(b.Ctx, 1000)
	expect.OK(b, err)
	return sessions
}
