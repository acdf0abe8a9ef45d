package admin_test

import (
	"fmt"
	"strings"
	"testing"

	"turnstile/internal/chat/receipt"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

func TestFollowups(t *testing.T) {
	t.Parallel()
	rdb := redistest.New(t)
	key := rediskey.For("s").Followups()
	waits := func(id string) {
		if err := rdb.HSet(t.Context(), rediskey.For("s").Task(rediskey.TaskID("s", id)), "state", "pending", "seq", 1).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for order, id := range []string{"first", "second"} {
		entry := `{"id":"` + id + `","text":"<` + id + `>"}`
		// As the script accept writes it.
		entry = `{"mode":"queue","order":` + string(rune('2'+order)) + `,"arrived_at":1795227266293,"state":"queued",` + strings.TrimPrefix(entry, "{")
		if err := rdb.HSet(t.Context(), key, id, entry).Err(); err != nil {
			t.Fatal(err)
		}
		waits(id)
	}
	for id, entry := range map[string]string{
		"third": `{"id":`, "fourth": `{"id":"fourth"}`, "fifth": `{"id":"fifth"}`, "sixth": `{"id":"sixth"}`,
	} {
		if err := rdb.HSet(t.Context(), key, id, entry).Err(); err != nil {
			t.Fatal(err)
		}
	}
	waits("third")
	for id, state := range map[string]string{"fourth": "archived", "fifth": "pending"} { // these two have no follow-up; the sixth is gone
		if err := rdb.HSet(t.Context(), rediskey.For("s").Task(rediskey.TaskID("s", id)), "state", state).Err(); err != nil {
			t.Fatal(err)
		}
	}
	got, err := actors.NewClient(rdb).Operate("s").FollowUps(t.Context())
	if err != nil || len(got) != 2 {
		t.Fatalf("%+v, %v", got, err)
	}
	expect.Equal(t, "the first", got[0].ID, "first")
	f := got[1]
	expect.Equal(t, "the second", fmt.Sprint(f.ID, f.Text, f.Mode, f.State, f.Position, f.ArrivedAt.UnixMilli()), "second<second>queuepending3 1795227266293")
	if err := rdb.HSet(t.Context(), key, "broken", "x").Err(); err != nil {
		t.Fatal(err)
	}
	if got, err := actors.NewClient(rdb).Operate("s").FollowUps(t.Context()); err != nil || len(got) != 2 {
		t.Errorf("a broken entry hides the others: %+v, %v", got, err)
	}
}

// An operator deletes a waiting message: its follow-up says nothing about another message that has
// its ID a day later.
func TestFollowUpOfADeletedMessage(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		mode session.Mode
		want func(t *testing.T, b *actors.Bench, r receipt.Receipt)
	}{
		"interrupts": {session.ModeInterrupt, func(t *testing.T, b *actors.Bench, r receipt.Receipt) {
			expect.Equal(t, "position", r.Position, 2)
			expect.Equal(t, "asked of the turn", b.Redis.HGet(b.Ctx, b.Keys.Run(), "interrupt").Val(), b.Redis.HGet(b.Ctx, b.Keys.Run(), "fence").Val())
		}},
		"is refused": {session.ModeReject, func(t *testing.T, b *actors.Bench, r receipt.Receipt) {
			expect.Equal(t, "receipt", string(r.Status)+" "+r.Reason, "refused busy")
		}},
		"finds the line full": {session.ModeQueue, func(t *testing.T, b *actors.Bench, r receipt.Receipt) {
			expect.Equal(t, "receipt", string(r.Status)+" "+r.Reason, "refused full")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t, actors.Line(session.QueueSettings{Cap: 2}))
			b.Say("now")
			b.Start()
			b.SayAll("one", "again")
			expect.OK(t, b.Inspector().DeleteTask(rediskey.Queue(actors.Key), b.Task("again")))
			b.Say("two")
			expect.OK(t, b.Redis.Del(b.Ctx, b.Keys.Idem("again")).Err()) // as after a day
			c.want(t, b, b.Say("again", c.mode))
		})
	}
}

// The list has only messages that wait.
func TestFollowUpsThatNobodyWaitsFor(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	listed := func(want ...string) {
		t.Helper()
		list, err := b.Client.Operate(actors.Key).FollowUps(b.Ctx)
		expect.OK(t, err)
		var ids []string
		for _, f := range list {
			ids = append(ids, f.ID)
		}
		expect.List(t, "follow-ups", ids, want...)
	}
	b.Say("now")
	h := b.Start()
	b.SayAll("deleted", "archived", "other", "same")
	i, queue := b.Inspector(), rediskey.Queue(actors.Key)
	expect.OK(t, i.DeleteTask(queue, b.Task("deleted")))
	expect.OK(t, i.DeleteTask(queue, b.Task("same")))
	b.Enqueue("same") // by a sender that does not notify
	listed("archived", "other")
	expect.OK(t, i.PauseQueue(queue))
	b.Finish(h)
	_, err := i.ArchiveAllPendingTasks(queue)
	expect.OK(t, err)
	expect.OK(t, i.UnpauseQueue(queue))
	listed()
	expect.OK(t, i.RunTask(queue, b.Task("archived"))) // it waits again
	listed("archived")
	expect.List(t, "run", b.Drain(), "archived")
	expect.Equal(t, "entries left", b.Redis.Exists(b.Ctx, b.Keys.Followups()).Val(), 0)
}
