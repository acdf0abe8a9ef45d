package protocol_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"turnstile"
	sq "turnstile/internal/protocol"
	"turnstile/internal/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/actors"
)

// capped is a bench whose sender lets in so many messages in all.
func capped(t *testing.T, n int) *bench {
	t.Helper()
	b := newBench(t)
	b.client = actors.NewClientWith(b.rdb, turnstile.ClientConfig{MessagesCap: n})
	return b
}

// submit puts a message into another session.
func (b *bench) submit(sessionKey, id string) string {
	b.Helper()
	r, err := b.client.Submit(b.ctx, sessionKey, session.Message{ID: id, Text: id})
	must(b, err)
	return string(r.Status) + " " + r.Reason
}

// As many as the workers have counted may wait in all sessions; one more is refused, and
// leaves nothing.
func TestMessagesCap(t *testing.T) {
	t.Parallel()
	b := capped(t, 3)
	for i := range 4 { // before anybody has counted, each is counted as it comes
		want := map[bool]string{true: "accepted ", false: "refused messages"}[i < 3]
		equal(t, fmt.Sprint(i), b.submit(fmt.Sprint("s", i), "a"), want)
	}
	equal(t, "stored", b.rdb.Exists(b.ctx, rediskey.For("s3").Pending(), rediskey.For("s3").Task(rediskey.TaskID("s3", "a"))).Val(), 0)
	equal(t, "known", b.isIn(rediskey.Sessions, "s3"), false)
	r, err := b.client.Submit(b.ctx, "s3", session.Message{Text: "a"})
	must(t, err)
	equal(t, "as an error", errors.Is(r.Err(), turnstile.ErrMessagesFull), true)

	equal(t, "a repetition", b.submit("s0", "a"), "duplicate ")
	b.trimAll()
	equal(t, "counted", b.rdb.HGet(b.ctx, rediskey.Waiting, "count").Val(), "3")
	equal(t, "after the sweep", b.submit("s3", "a"), "refused messages")

	// Whoever has an owner is not kept from steering or interrupting.
	holds, err := b.c.Claim(b.ctx, []string{"s0"})
	must(t, err)
	equal(t, "a follow-up", b.submit("s0", "b"), "queued ")
	_, err = holds[0].Finish(b.ctx, sq.End{Status: session.StatusDone})
	must(t, err)
	_, err = holds[0].Finish(b.ctx, sq.End{Status: session.StatusDone})
	must(t, err)
	must(t, b.rdb.Del(b.ctx, rediskey.Timer("sweep")).Err())
	b.trimAll()
	equal(t, "counted again", b.rdb.HGet(b.ctx, rediskey.Waiting, "count").Val(), "2")
	equal(t, "there is room", b.submit("s3", "a"), "accepted ")

	// The count is as of the sweep, until no worker sweeps any more.
	equal(t, "more, before the next count", b.submit("s4", "a"), "accepted ")
	must(t, b.rdb.HSet(b.ctx, rediskey.Waiting, "at", b.redisTime().Add(-2*time.Minute).UnixMilli()).Err())
	equal(t, "without a worker", b.submit("s5", "a"), "accepted ")
	equal(t, "one too many", b.submit("s6", "a"), "refused messages")
}

// Without a cap nothing is asked.
func TestMessagesCapAsksOnlyIfItIsSet(t *testing.T) {
	t.Parallel()
	for set, n := range map[int]int64{0: 3, 5: 4} {
		b := capped(t, set)
		b.say("first") // the clock, and scripts
		trips := &roundTrips{}
		b.rdb.AddHook(trips)
		b.say("second")
		equal(t, fmt.Sprint("round trips with a cap of ", set), trips.n.Load(), n)
	}
}
