package protocol_test

import (
	"testing"
	"time"

	"turnstile"
	"turnstile/internal/protocol"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// What a turn had done at its last checkpoint is there for the next run of its
// message, and for no other's.
func TestPartialOutlivesItsWorker(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.SayAll("a", "b")
	h := b.Start()
	first := h.Turn()
	expect.OK(t, h.Checkpoint(b.Ctx, []session.Entry{{Role: session.RoleAssistant, Text: "half", Turn: first.ID}}))
	b.Die()
	h = b.Start()
	past, err := h.History(b.Ctx)
	expect.OK(t, err)
	if past.Partial == nil || len(past.Partial.Entries) != 1 || past.Partial.Entries[0].Text != "half" || past.Partial.Fence != first.Fence {
		t.Errorf("partial: %+v", past.Partial)
	}
	expect.Equal(t, "entries of the transcript", len(past.Entries), 0)
	b.Finish(h)
	past, err = h.History(b.Ctx)
	expect.OK(t, err)
	if past.Partial != nil {
		t.Errorf("the next message has a partial: %+v", past.Partial)
	}
}

// What a dead turn was taken for, and what was steered into it, comes back to the
// head in its order, one message a turn.
func TestMessagesOfADeadTurnComeBack(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	h := b.Start()
	b.SayCollected("c1", "c2")
	b.Finish(h)
	expect.OK(t, h.Promote(b.Ctx))
	b.Say("behind")
	b.Say("s1", session.ModeSteer)
	b.Say("s2", session.ModeSteer)
	steered, err := h.Steer(b.Ctx)
	expect.OK(t, err)
	expect.Equal(t, "steered", len(steered), 2)
	b.Die()
	h = b.Start()
	expect.Equal(t, "messages of the next turn", len(h.Turn().Messages()), 1)
	expect.Equal(t, "message", h.Turn().Message.ID, "c1")
	b.Finish(h)
	for _, id := range []string{"c2", "s1", "s2", "behind"} {
		expect.Equal(t, "message", h.Turn().Message.ID, id)
		expect.Equal(t, "messages of its turn", len(h.Turn().Messages()), 1)
		b.Finish(h)
	}
}

// The age of a message that no Go sender announced counts from its turn:
// expires_in does not see how long it waited in line.
func TestAgeOfAMessageThatWasNotRung(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Enqueue("plain")
	b.Say("rung")
	long := time.Now().Add(-time.Hour).UnixMilli()
	expect.OK(t, b.Redis.HSet(b.Ctx, b.Keys.Task(b.Task("plain")), "pending_since", long*1e6).Err())
	expect.OK(t, b.Redis.HSet(b.Ctx, b.Keys.Task(b.Task("rung")), "seen", long).Err())
	h := b.Start()
	expect.Equal(t, "age of one that was not rung", h.Turn().Age, 0)
	b.Finish(h)
	if age := h.Turn().Age; age < time.Hour {
		t.Errorf("age of one that was rung: %s", age)
	}
}

// An entry, a setting and a mark that another version has written in part or in
// words of its own stop nobody.
func TestRecordsOfOtherVersions(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	b.Drain()
	expect.OK(t, b.Redis.HSet(b.Ctx, b.Keys.Record(), "queue", `{"mode":"telepathy","colour":"red"}`, "dropped", "not JSON", "new", "1").Err())
	expect.OK(t, b.Redis.HSet(b.Ctx, b.Keys.Resume(), "pending", "1", "colour", "red").Err())
	expect.OK(t, b.Redis.HSet(b.Ctx, b.Keys.Run(), "colour", "red").Err())
	expect.OK(t, b.Redis.Set(b.Ctx, b.Keys.Partial(), `{"v":9,"entries":7}`, 0).Err())
	expect.OK(t, b.Redis.RPush(b.Ctx, b.Keys.Transcript(b.Info().SessionID), `{"role":"oracle","colour":"red"}`, "not JSON").Err())
	b.Say("b")
	h := b.Start()
	expect.Equal(t, "resume", h.Turn().Resume, "restart_timeout")
	past, err := h.History(b.Ctx)
	expect.OK(t, err)
	expect.Equal(t, "entries", len(past.Entries), 4)
	expect.Equal(t, "role of one that cannot be read", past.Entries[3].Role, session.RoleSystem)
	expect.Equal(t, "waits", b.Say("c").Status, turnstile.Queued)
	expect.Equal(t, "goes on", b.Finish(h), true)
	b.Finish(h)
	expect.Equal(t, "status", b.Outcome("c").Status, session.StatusDone)
}

// A message that no Go sender announced waits in line, whatever its mode: modes
// take effect at the ring.
func TestModeOfAMessageThatWasNotRung(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	h := b.Start()
	var want []string
	for _, mode := range []session.Mode{session.ModeInterrupt, session.ModeRollback, session.ModeReject, session.ModeCollect, session.ModeCollect, session.ModeSteer} {
		id := b.Task(string(mode) + string(rune('0'+len(want))))
		b.EnqueueTask(session.TaskType, `{"v":1,"text":"x","mode":"`+string(mode)+`"}`, id)
		want = append(want, id)
	}
	r := b.Worker.Renew(b.Ctx, []*protocol.Claim{h})[0]
	if r.Requested != nil || r.Steer || r.Waiting != len(want) {
		t.Errorf("renewal: %+v", r)
	}
	expect.Equal(t, "goes on", b.Finish(h), true)
	for i, id := range want {
		turn := h.Turn()
		expect.Equal(t, "message", b.Task(turn.Message.ID), id)
		expect.Equal(t, "messages of its turn", len(turn.Messages()), 1)
		expect.Equal(t, "goes on", b.Finish(h), i < len(want)-1)
	}
}
