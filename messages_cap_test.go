package turnstile_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"turnstile"
	"turnstile/internal/chat/receipt"
	"turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// capped is a bench with a cap of n messages over all sessions.
func capped(t *testing.T, n int) *actors.Bench {
	t.Helper()
	b := actors.NewBench(t)
	b.Client = actors.NewClientWith(b.Redis, turnstile.ClientConfig{Limits: session.Limits{AllQueues: n}})
	return b
}

// submit submits a message to another session.
func submit(b *actors.Bench, sessionKey, id string) string {
	b.Helper()
	r, err := receipt.Input(b.Ctx, b.Client.Session(sessionKey), turnstile.Message{ID: id, Text: id})
	expect.OK(b, err)
	return string(r.Status) + " " + r.Reason
}

// Messages may wait in all sessions up to the cap, as the workers have counted them. One more is
// refused and leaves nothing.
func TestMessagesCap(t *testing.T) {
	t.Parallel()
	b := capped(t, 3)
	for i := range 4 { // before the first count, each message counts as it comes
		want := map[bool]string{true: "accepted ", false: "refused messages"}[i < 3]
		expect.Equal(t, fmt.Sprint(i), submit(b, fmt.Sprint("s", i), "a"), want)
	}
	expect.Equal(t, "stored", b.Redis.Exists(b.Ctx, rediskey.For("s3").Pending(), rediskey.For("s3").Task(rediskey.TaskID("s3", "a"))).Val(), 0)
	expect.Equal(t, "known", b.IsIn(rediskey.Sessions, "s3"), false)
	r, err := receipt.Input(b.Ctx, b.Client.Session("s3"), turnstile.Message{Text: "a"})
	expect.OK(t, err)
	expect.Equal(t, "as an error", errors.Is(r.Err, session.ErrAllQueuesFull), true)

	expect.Equal(t, "a repetition", submit(b, "s0", "a"), "duplicate ")
	b.TrimAll()
	expect.Equal(t, "counted", b.Redis.HGet(b.Ctx, rediskey.Waiting, "count").Val(), "3")
	expect.Equal(t, "after the sweep", submit(b, "s3", "a"), "refused messages")

	// A session with an owner can still be steered and interrupted.
	claims, err := b.Worker.Claim(b.Ctx, []string{"s0"})
	expect.OK(t, err)
	expect.Equal(t, "a follow-up", submit(b, "s0", "b"), "queued ")
	_, err = claims[0].Finish(b.Ctx, protocol.End{Status: session.StatusDone})
	expect.OK(t, err)
	_, err = claims[0].Finish(b.Ctx, protocol.End{Status: session.StatusDone})
	expect.OK(t, err)
	expect.OK(t, b.Redis.Del(b.Ctx, rediskey.Timer("sweep")).Err())
	b.TrimAll()
	expect.Equal(t, "counted again", b.Redis.HGet(b.Ctx, rediskey.Waiting, "count").Val(), "2")
	expect.Equal(t, "there is room", submit(b, "s3", "a"), "accepted ")

	// The sweep's count holds until no worker sweeps any more.
	expect.Equal(t, "more, before the next count", submit(b, "s4", "a"), "accepted ")
	expect.OK(t, b.Redis.HSet(b.Ctx, rediskey.Waiting, "at", b.RedisTime().Add(-2*time.Minute).UnixMilli()).Err())
	expect.Equal(t, "without a worker", submit(b, "s5", "a"), "accepted ")
	expect.Equal(t, "one too many", submit(b, "s6", "a"), "refused messages")
}

// A sender can write the count. One that cannot be read refuses nothing, and the workers' next count
// replaces it.
func TestMessagesCapHeals(t *testing.T) {
	t.Parallel()
	for name, poison := range map[string][]any{
		"another type":   {"SET", rediskey.Waiting, "x"},
		"a list":         {"RPUSH", rediskey.Waiting, "x"},
		"no numbers":     {"HSET", rediskey.Waiting, "count", "x", "at", "y", "owing", "z"},
		"of the future":  {"HSET", rediskey.Waiting, "count", "0", "at", "9000000000000000"},
		"a number's end": {"HSET", rediskey.Waiting, "count", "nan", "at", "inf"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := capped(t, 3)
			expect.OK(t, b.Redis.Do(b.Ctx, poison...).Err())
			for _, s := range []string{"s0", "s1", "s2"} {
				expect.Equal(t, "with it", submit(b, s, "a"), "accepted ")
			}
			_, err := b.Client.Backlog(b.Ctx)
			expect.OK(t, err)
			b.TrimAll()
			expect.Equal(t, "counted", b.Redis.HGet(b.Ctx, rediskey.Waiting, "count").Val(), "3")
			expect.Equal(t, "after the count", submit(b, "s3", "a"), "refused messages")
		})
	}
}

// Without a cap, Submit does not read the count.
func TestMessagesCapReadsOnlyIfItIsSet(t *testing.T) {
	t.Parallel()
	for set, n := range map[int]int64{0: 2, 5: 3} {
		b := capped(t, set)
		b.Say(fmt.Sprint("first", set)) // for the clock and the scripts
		trips := &roundTrips{}
		b.Redis.AddHook(trips)
		b.Say(fmt.Sprint("second", set))
		expect.Equal(t, fmt.Sprint("round trips with a cap of ", set), trips.n.Load(), n)
	}
}
