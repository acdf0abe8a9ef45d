package protocol_test

import (
	"testing"

	"turnstile"
	"turnstile/internal/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/expect"
)

// An operator deletes a message that waits: what was told of it says nothing of another
// message with its id.
func TestFollowUpOfADeletedMessage(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		mode session.Mode
		want func(t *testing.T, b *bench, r turnstile.Receipt)
	}{
		"interrupts": {session.ModeInterrupt, func(t *testing.T, b *bench, r turnstile.Receipt) {
			expect.Equal(t, "position", r.Position, 2)
			expect.Equal(t, "asked of the turn", b.rdb.HGet(b.ctx, b.k.Run(), "interrupt").Val(), b.rdb.HGet(b.ctx, b.k.Run(), "fence").Val())
		}},
		"is refused": {session.ModeReject, func(t *testing.T, b *bench, r turnstile.Receipt) {
			expect.Equal(t, "receipt", string(r.Status)+" "+r.Reason, "refused busy")
		}},
		"finds the line full": {session.ModeQueue, func(t *testing.T, b *bench, r turnstile.Receipt) {
			expect.Equal(t, "receipt", string(r.Status)+" "+r.Reason, "refused full")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, line(session.QueueSettings{Cap: 2}))
			b.say("now")
			b.start()
			b.sayAll("one", "again")
			expect.OK(t, b.inspector().DeleteTask(rediskey.Queue(key), b.task("again")))
			b.say("two")
			c.want(t, b, b.say("again", c.mode))
		})
	}
}

// Nobody is said to wait who does not.
func TestFollowUpsThatNobodyWaitsFor(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	listed := func(want ...string) {
		t.Helper()
		list, err := b.client.Followups(b.ctx, key)
		expect.OK(t, err)
		var ids []string
		for _, f := range list {
			ids = append(ids, f.ID)
		}
		expect.List(t, "follow-ups", ids, want...)
	}
	b.say("now")
	h := b.start()
	b.sayAll("deleted", "archived", "other", "same")
	i, queue := b.inspector(), rediskey.Queue(key)
	expect.OK(t, i.DeleteTask(queue, b.task("deleted")))
	expect.OK(t, i.DeleteTask(queue, b.task("same")))
	b.enqueue("same") // by a sender that rings nobody
	listed("archived", "other")
	expect.OK(t, i.PauseQueue(queue))
	b.finish(h)
	_, err := i.ArchiveAllPendingTasks(queue)
	expect.OK(t, err)
	expect.OK(t, i.UnpauseQueue(queue))
	listed()
	expect.OK(t, i.RunTask(queue, b.task("archived"))) // it waits again
	listed("archived")
	expect.List(t, "run", b.drain(), "archived")
	expect.Equal(t, "entries left", b.rdb.Exists(b.ctx, b.k.Followups()).Val(), 0)
}
