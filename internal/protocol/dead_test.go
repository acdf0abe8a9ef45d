package protocol_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	sq "turnstile/internal/protocol"
	"turnstile/internal/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/expect"
)

func (b *bench) dead(sessionKey string) (list []string) {
	b.Helper()
	for d, err := range b.client.DeadLetters(b.ctx, sessionKey) {
		expect.OK(b, err)
		if d.Session != sessionKey || d.Age < 0 || d.Age > time.Minute || time.Since(d.At).Abs() > time.Minute {
			b.Errorf("%+v", d)
		}
		list = append(list, fmt.Sprintf("%s %s %q %s", d.ID, d.Outcome.Status, d.Outcome.Error, d.Text))
	}
	slices.Sort(list) // which of them is in which second is the clock's affair
	return list
}

func TestDeadLetters(t *testing.T) {
	t.Parallel()
	eachKind(t, func(b *bench) {
		expect.List(b, "of an unknown session", b.dead(key))
		for _, id := range []string{"failed", "expired", "stopped"} {
			b.say(id)
			if id == "stopped" {
				break
			}
			_, err := b.start().Finish(b.ctx, sq.End{Status: session.Status(id), Error: id + " it is"})
			expect.OK(b, err)
		}
		_, err := b.client.Stop(b.ctx, key)
		expect.OK(b, err)
		b.say("by-hand")
		expect.OK(b, b.inspector().ArchiveTask(rediskey.Queue(key), b.task("by-hand")))
		b.enqueueRaw("other", "x", "foreign")
		_, err = b.start().Finish(b.ctx, sq.End{Status: session.StatusFailed, Error: "no message"})
		expect.OK(b, err)
		b.say("goes-on")

		want := []string{
			`by-hand failed "archived by an operator" by-hand`, `expired expired "expired it is" expired`,
			`failed failed "failed it is" failed`, `foreign failed "no message" `, `stopped stopped "stopped by user" stopped`,
		}
		expect.List(b, "dead", b.dead(key), want...)

		// More than one batch, of another session that asynq alone knows of.
		for i := range 45 {
			_, err := b.client.Submit(b.ctx, "many", session.Message{ID: fmt.Sprintf("m%02d", i), Text: "x"})
			expect.OK(b, err)
		}
		_, err = b.client.Stop(b.ctx, "many")
		expect.OK(b, err)
		expect.OK(b, b.rdb.ZRem(b.ctx, rediskey.Sessions, "many").Err())
		expect.Equal(b, "dead letters of many", len(b.dead("many")), 45)
		_, err = b.client.Submit(b.ctx, "none", session.Message{Text: "x"})
		expect.OK(b, err)
		var sessions []string
		for s, err := range b.client.SessionsWithDeadLetters(b.ctx) {
			expect.OK(b, err)
			sessions = append(sessions, s)
		}
		slices.Sort(sessions)
		expect.List(b, "with dead letters", sessions, key, "many")
		for _, err := range b.client.SessionsWithDeadLetters(b.ctx) {
			expect.OK(b, err)
			break // it does not go on
		}

		// By id, and only what is dead.
		n, err := b.client.DeleteDeadLetters(b.ctx, key, "by-hand", "goes-on", "unknown")
		expect.OK(b, err)
		expect.Equal(b, "dropped by id", n, 1)
		expect.List(b, "in line", b.waiting(), "goes-on")
		if n, err = b.client.Rerun(b.ctx, key); err != nil || n != 3 {
			b.Errorf("rerun: %d, %v", n, err)
		}
		expect.List(b, "dead", b.dead(key), want[1])

		// All, also of a queue whose name is not listed.
		expect.OK(b, b.rdb.SRem(b.ctx, rediskey.AllQueues, rediskey.Queue("many")).Err())
		n, err = b.client.DeleteDeadLetters(b.ctx, "many")
		expect.OK(b, err)
		expect.Equal(b, "dropped", n, 45)
		expect.Equal(b, "dead letters of many", len(b.dead("many")), 0)
		n, err = b.client.DeleteDeadLetters(b.ctx, "none")
		expect.OK(b, err)
		expect.Equal(b, "dropped of none", n, 0)
		if _, err := b.inspector().GetTaskInfo(rediskey.Queue("many"), rediskey.TaskID("many", "m00")); err == nil {
			b.Error("the task is still there")
		}
	})
}

// Those of one second are in the order of their arrival, more than a batch, too.
func TestDeadLettersInOrder(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var want []string
	for i := range 45 {
		id := fmt.Sprintf("m%02d", (i*7+3)%45)
		b.say(id)
		want = append(want, id)
	}
	_, err := b.client.Stop(b.ctx, key)
	expect.OK(t, err)
	b.say("later")
	_, err = b.start().Finish(b.ctx, sq.End{Status: session.StatusFailed, Error: "no"})
	expect.OK(t, err)
	archive := b.k.Archived()
	for _, id := range want { // one second, whatever the clock did
		expect.OK(t, b.rdb.ZAdd(b.ctx, archive, redis.Z{Score: 1, Member: b.task(id)}).Err())
	}
	var got []string
	for d, err := range b.client.DeadLetters(b.ctx, key) {
		expect.OK(t, err)
		got = append(got, d.ID)
	}
	expect.List(t, "dead", got, append(want, "later")...)
}

// A stock asynq.Server leaves its own reason.
func TestDeadLetterOfAStockServer(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.enqueue("m1", asynq.MaxRetry(0))
	stop := b.server(func(context.Context, *asynq.Task) error { return fmt.Errorf("not mine: %w", asynq.SkipRetry) })
	expect.Soon(t, "the archive", func() bool { return b.state("m1") == "archived" })
	stop()
	expect.List(t, "dead", b.dead(key), `m1 failed "not mine: skip retry for the task" m1`)
}
