package protocol_test

import (
	"errors"
	"testing"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/wire"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// A task that is no message of this version is claimed with an error, and can be archived.
func TestForeignTasks(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	for id, payload := range map[string]string{"text": "hello", "version": `{"v":7,"text":"x"}`, "empty": `{"v":1,"text":""}`, "nothing": ""} {
		t.Run(id, func(t *testing.T) {
			b := actors.NewBench(t)
			b.EnqueueTask(wire.TaskType, payload, id)
			h := b.Claim()
			if !errors.Is(h.Turn().Err, session.ErrInvalid) {
				t.Errorf("err: %v", h.Turn().Err)
			}
			expect.Equal(t, "id", h.Turn().Message.ID, id)
			_, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusFailed, Error: h.Turn().Err.Error()})
			expect.OK(t, err)
			expect.Equal(t, "state", b.Redis.HGet(b.Ctx, b.Keys.Task(id), "state").Val(), "archived")
		})
	}
	b.EnqueueTask("email:welcome", `{"v":1,"text":"x"}`, "other")
	if err := b.Claim().Turn().Err; !errors.Is(err, session.ErrInvalid) {
		t.Errorf("another task type: %v", err)
	}
}

// A task with a msg that is not protobuf does not stop its session.
func TestBrokenTask(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.SayAll("a", "b")
	b.Redis.HSet(b.Ctx, b.Keys.Task(b.Task("a")), "msg", "\xff\xff\xff")
	h := b.Claim()
	if h.Turn().Err == nil {
		t.Error("no error")
	}
	more, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusFailed, Error: h.Turn().Err.Error()})
	expect.OK(t, err)
	expect.Equal(t, "has a next turn", more, true)
}
