package protocol_test

import (
	"testing"
	"time"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/wire"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// The age of an asynq.Client's message counts from its turn: expires_in does not include its wait
// in the queue.
func TestAgeOfAPlainMessage(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Enqueue("plain")
	b.Say("sent")
	long := time.Now().Add(-time.Hour).UnixMilli()
	expect.OK(t, b.Redis.HSet(b.Ctx, b.Keys.Task(b.Task("plain")), "pending_since", long*1e6).Err())
	expect.OK(t, b.Redis.HSet(b.Ctx, b.Keys.Task(b.Task("sent")), "seen", long).Err())
	h := b.Start()
	expect.Equal(t, "age of the plain one", h.Turn().Age, 0)
	b.Finish(h)
	if age := h.Turn().Age; age < time.Hour {
		t.Errorf("age of the sent one: %s", age)
	}
}

// An asynq.Client's message waits in the queue, whatever its mode: accept applies the modes.
func TestModeOfAPlainMessage(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	h := b.Start()
	var want []string
	for _, mode := range []session.Mode{session.ModeInterrupt, session.ModeRollback, session.ModeReject, session.ModeCollect, session.ModeCollect, session.ModeSteer} {
		id := b.Task(string(mode) + string(rune('0'+len(want))))
		b.EnqueueTask(wire.TaskType, `{"v":1,"text":"x","mode":"`+string(mode)+`"}`, id)
		want = append(want, id)
	}
	r := b.Worker.Renew(b.Ctx, []*protocol.Claim{h})[0]
	if r.Requested != nil || r.Steer || r.Waiting != len(want) {
		t.Errorf("renewal: %+v", r)
	}
	expect.Equal(t, "has a next turn", b.Finish(h), true)
	for i, id := range want {
		turn := h.Turn()
		expect.Equal(t, "message", b.Task(turn.Message.ID), id)
		expect.Equal(t, "messages of its turn", len(turn.Messages()), 1)
		expect.Equal(t, "has a next turn", b.Finish(h), i < len(want)-1)
	}
}
