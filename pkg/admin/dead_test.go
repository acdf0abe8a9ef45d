package admin_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"turnstile"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/admin"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

func TestDeadLetters(t *testing.T) {
	t.Parallel()
	eachKind(t, func(b *actors.Bench) {
		expect.List(b, "of an unknown session", b.Dead(actors.Key))
		for _, id := range []string{"failed", "expired", "stopped"} {
			b.Say(id)
			if id == "stopped" {
				break
			}
			_, err := b.Start().Finish(b.Ctx, protocol.End{Status: session.Status(id), Error: id + " it is"})
			expect.OK(b, err)
		}
		_, err := b.Client.Session(actors.Key).Stop(b.Ctx)
		expect.OK(b, err)
		b.Say("by-hand")
		expect.OK(b, b.Inspector().ArchiveTask(rediskey.Queue(actors.Key), b.Task("by-hand")))
		b.EnqueueTask("other", "x", "foreign")
		_, err = b.Start().Finish(b.Ctx, protocol.End{Status: session.StatusFailed, Error: "no message"})
		expect.OK(b, err)
		b.Say("goes-on")

		want := []string{
			`by-hand failed "archived by an operator" by-hand`, `expired expired "expired it is" expired`,
			`failed failed "failed it is" failed`, `foreign failed "no message" `, `stopped stopped "stopped by user" stopped`,
		}
		expect.List(b, "dead", b.Dead(actors.Key), want...)

		// More than one batch, of another session that only asynq knows.
		for i := range 45 {
			_, err := b.Client.Session("many").Send(b.Ctx, turnstile.Message{ID: fmt.Sprintf("m%02d", i), Text: "x"})
			expect.OK(b, err)
		}
		_, err = b.Client.Session("many").Stop(b.Ctx)
		expect.OK(b, err)
		expect.OK(b, b.Redis.ZRem(b.Ctx, rediskey.Sessions, "many").Err())
		expect.Equal(b, "dead letters of many", len(b.Dead("many")), 45)
		_, err = b.Client.Session("none").Send(b.Ctx, turnstile.Message{Text: "x"})
		expect.OK(b, err)
		sessions := sessionsOf(b, admin.Query{State: admin.StateDeadLetters})
		slices.Sort(sessions)
		expect.List(b, "with dead letters", sessions, actors.Key, "many")
		for _, err := range b.Client.Sessions(b.Ctx, admin.Query{State: admin.StateDeadLetters}) {
			expect.OK(b, err)
			break // the caller ends it
		}

		// No IDs mean none, and not all.
		for what, of := range map[string]func() (int, error){
			"deleted": func() (int, error) { return b.Client.Operate(actors.Key).DeleteDeadLetters(b.Ctx) },
			"rerun":   func() (int, error) { return b.Client.Operate(actors.Key).Rerun(b.Ctx) },
		} {
			n, err := of()
			expect.OK(b, err)
			expect.Equal(b, what, n, 0)
		}
		expect.List(b, "dead", b.Dead(actors.Key), want...)

		// By ID, and only dead letters.
		n, err := b.Client.Operate(actors.Key).DeleteDeadLetters(b.Ctx, "by-hand", "goes-on", "unknown")
		expect.OK(b, err)
		expect.Equal(b, "dropped by id", n, 1)
		expect.List(b, "in line", b.Waiting(), "goes-on")
		if n, err = b.Client.Operate(actors.Key).Rerun(b.Ctx, admin.All); err != nil || n != 3 {
			b.Errorf("rerun: %d, %v", n, err)
		}
		expect.List(b, "dead", b.Dead(actors.Key), want[1])

		// All of them, also of an unlisted queue.
		expect.OK(b, b.Redis.SRem(b.Ctx, rediskey.AllQueues, rediskey.Queue("many")).Err())
		n, err = b.Client.Operate("many").DeleteDeadLetters(b.Ctx, admin.All)
		expect.OK(b, err)
		expect.Equal(b, "dropped", n, 45)
		expect.Equal(b, "dead letters of many", len(b.Dead("many")), 0)
		n, err = b.Client.Operate("none").DeleteDeadLetters(b.Ctx, admin.All)
		expect.OK(b, err)
		expect.Equal(b, "dropped of none", n, 0)
		if _, err := b.Inspector().GetTaskInfo(rediskey.Queue("many"), rediskey.TaskID("many", "m00")); err == nil {
			b.Error("the task is still there")
		}
	})
}

// Those of one second are in the order of their arrival, also beyond a batch.
func TestDeadLettersInOrder(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	var want []string
	for i := range 45 {
		id := fmt.Sprintf("m%02d", (i*7+3)%45)
		b.Say(id)
		want = append(want, id)
	}
	_, err := b.Client.Session(actors.Key).Stop(b.Ctx)
	expect.OK(t, err)
	b.Say("later")
	_, err = b.Start().Finish(b.Ctx, protocol.End{Status: session.StatusFailed, Error: "no"})
	expect.OK(t, err)
	archive := b.Keys.Archived()
	for _, id := range want { // one second, whatever the clock did
		expect.OK(t, b.Redis.ZAdd(b.Ctx, archive, redis.Z{Score: 1, Member: b.Task(id)}).Err())
	}
	var got []string
	for d, err := range b.Client.Operate(actors.Key).DeadLetters(b.Ctx) {
		expect.OK(t, err)
		got = append(got, d.ID)
	}
	expect.List(t, "dead", got, append(want, "later")...)
}

// A stock asynq.Server leaves its own reason.
func TestDeadLetterOfAStockServer(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Enqueue("m1", asynq.MaxRetry(0))
	stop := b.StockServer(func(context.Context, *asynq.Task) error { return fmt.Errorf("not mine: %w", asynq.SkipRetry) })
	expect.Soon(t, "the archive", func() bool { return b.State("m1") == "archived" })
	stop()
	expect.List(t, "dead", b.Dead(actors.Key), `m1 failed "not mine: skip retry for the task" m1`)
}
