package actors

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/rediskey"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// Reap runs the job without the pause between two runs.
func (b *Bench) Reap() (recovered int) {
	b.Helper()
	b.Redis.Del(b.Ctx, rediskey.Timer("reap"))
	n, _, err := b.Worker.Reap(b.Ctx)
	expect.OK(b, err)
	return n
}

// Due runs the job without the pause between two runs.
func (b *Bench) Due() {
	b.Helper()
	b.Redis.Del(b.Ctx, rediskey.Timer("due"))
	_, err := b.Worker.Due(b.Ctx)
	expect.OK(b, err)
}

// Sweep runs the job without its interval, and returns how many sessions it woke.
func (b *Bench) Sweep() (woken int) {
	b.Helper()
	b.Redis.Del(b.Ctx, rediskey.Timer("sweep"))
	n, _, err := b.Worker.Sweep(b.Ctx, time.Minute)
	expect.OK(b, err)
	return n
}

// Find searches for unlisted sessions, and returns how many it entered.
func (b *Bench) Find() (entered int) {
	b.Helper()
	n, err := b.Worker.Find(b.Ctx)
	expect.OK(b, err)
	return n
}

// TrimAll archives messages beyond the caps, and counts the waiting ones.
func (b *Bench) TrimAll() {
	b.Helper()
	_, err := b.Worker.Trim(b.Ctx)
	expect.OK(b, err)
}

// Pop takes the ready sessions without waiting: go-redis blocks for no less than a second.
func (b *Bench) Pop() []string {
	b.Helper()
	if line, err := b.Worker.Line(b.Ctx); err != nil || !line.Any {
		expect.OK(b, err)
		return nil
	}
	sessions, err := b.Worker.Pop(b.Ctx, 1000)
	expect.OK(b, err)
	return sessions
}

// Overdue makes every member of an index due.
func (b *Bench) Overdue(index string) {
	for _, m := range b.Redis.ZRange(b.Ctx, index, 0, -1).Val() {
		b.Redis.ZAdd(b.Ctx, index, redis.Z{Score: 1, Member: m})
	}
}

// LoseIndexes removes the session from the indexes, as happens by Unregister and Forget, an Erase,
// or an empty Redis.
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

// AgeEvents makes the session's events, and the last turn's end, older by a time, and returns the last entry's ID.
func (b *Bench) AgeEvents(by time.Duration) (last string) {
	b.Helper()
	entries, err := b.Redis.XRange(b.Ctx, b.Keys.Events(), "-", "+").Result()
	expect.OK(b, err)
	expect.OK(b, b.Redis.Del(b.Ctx, b.Keys.Events()).Err())
	for _, e := range entries {
		ms, seq, _ := strings.Cut(e.ID, "-")
		at, err := strconv.ParseInt(ms, 10, 64)
		expect.OK(b, err)
		last = fmt.Sprintf("%d-%s", at-by.Milliseconds(), seq)
		expect.OK(b, b.Redis.XAdd(b.Ctx, &redis.XAddArgs{Stream: b.Keys.Events(), ID: last, Values: e.Values}).Err())
	}
	for name, field := range map[string]string{b.Keys.Record(): "created_at", b.Keys.Run(): "ended_at"} {
		if b.Redis.HExists(b.Ctx, name, field).Val() {
			expect.OK(b, b.Redis.HIncrBy(b.Ctx, name, field, -by.Milliseconds()).Err())
		}
	}
	return last
}

// StopAndDie stops as a sender that dies after a call that matches.
func (b *Bench) StopAndDie(match redistest.Match) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Ctx)
	defer cancel()
	dying := b.BareRedis()
	dying.AddHook(Behind(match, cancel))
	if _, err := NewClient(dying).Session(Key).Stop(ctx); !errors.Is(err, context.Canceled) {
		b.Fatalf("the stop of a sender who dies: %v", err)
	}
}

// StopEnded checks that a stop archived n messages and left none.
func (b *Bench) StopEnded(n int) {
	b.Helper()
	expect.Equal(b, "archived", b.Info().DeadLetters, n)
	expect.Equal(b, "archived", b.Redis.LLen(b.Ctx, b.Keys.Stopped()).Val(), 0)
	expect.Equal(b, "marked", b.Redis.HGet(b.Ctx, b.Keys.Run(), "stopping").Val(), "")
	expect.List(b, "the line", b.Waiting())
}
