package protocol_test

import (
	"testing"

	"turnstile"

	"github.com/hibiken/asynq"

	"turnstile/internal/chat/receipt"
	"turnstile/internal/protocol/wire"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

const someTrace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// A message carries its traceparent as a header of its task, which asynq's programs read and write
// too.
func TestTraceParentIsAHeaderOfTheTask(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	send := func(id, trace string) {
		t.Helper()
		_, err := receipt.Input(b.Ctx, b.Client.Session(actors.Key), turnstile.Message{ID: id, Text: id, TraceParent: trace})
		expect.OK(t, err)
	}
	send("a", someTrace)
	send("b", "00-nonsense")
	send("c", "")
	for id, want := range map[string]string{"a": someTrace, "b": "", "c": ""} {
		task, err := b.Inspector().GetTaskInfo(actors.Queue, b.Task(id))
		expect.OK(t, err)
		expect.Equal(t, "traceparent of "+id, task.Headers["traceparent"], want)
		if task.Headers["turnstile-nonce"] == "" {
			t.Errorf("%s has no nonce", id)
		}
	}
	for id, trace := range map[string]string{"d": someTrace, "e": "x\ny"} {
		task := asynq.NewTaskWithHeaders(wire.TaskType, []byte(`{"v": 1, "text": "hello"}`), map[string]string{"traceparent": trace, "x": "y"})
		_, err := asynq.NewClientFromRedisClient(b.Redis).EnqueueContext(b.Ctx, task, asynq.Queue(actors.Queue), asynq.TaskID(b.Task(id)))
		expect.OK(t, err)
	}
	want := map[string]string{"a": someTrace, "d": someTrace}
	turns := 0
	for h, more := b.Claim(), true; more; turns++ {
		m := h.Turn().Message
		expect.OK(t, h.Turn().Err)
		expect.Equal(t, "traceparent of the turn of "+m.ID, m.TraceParent, want[m.ID])
		more = b.Finish(h)
	}
	expect.Equal(t, "turns", turns, 5)
}

// A repetition belongs to the first one's trace, whatever its own is, and so does a rerun.
func TestTraceParentIsNoPartOfTheMessage(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	m := turnstile.Message{ID: "a", Text: "hello", TraceParent: someTrace}
	_, err := receipt.Input(b.Ctx, b.Client.Session(actors.Key), m)
	expect.OK(t, err)
	m.TraceParent = "00-11111111111111111111111111111111-2222222222222222-00"
	r, err := receipt.Input(b.Ctx, b.Client.Session(actors.Key), m)
	expect.OK(t, err)
	expect.Equal(t, "state", r.State, "pending")
	expect.OK(t, r.Err)
	expect.Equal(t, "traceparent", b.Claim().Turn().Message.TraceParent, someTrace)
}
