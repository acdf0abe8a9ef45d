package worker_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"turnstile"

	"github.com/hibiken/asynq"

	"turnstile/internal/chat/receipt"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/wire"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/test/expect"
)

// A message of a plain asynq.Client that exceeds a limit does not run: it is a dead letter with
// the reason, which Wait returns, and the next message runs.
func TestMessagesOverALimitAreArchived(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	client := asynq.NewClientFromRedisClient(r.rdb)
	put := func(id string, m wire.Message) {
		payload, err := m.Payload()
		expect.OK(t, err)
		_, err = client.Enqueue(asynq.NewTask(wire.TaskType, payload), asynq.Queue(rediskey.Queue(r.key)), asynq.TaskID(rediskey.TaskID(r.key, id)))
		expect.OK(t, err)
	}
	reasons := map[string]string{
		"meta": "bytes in JSON, at most 2097152 are allowed", "attachments": "101 attachments, at most 100",
		"task": "bytes, at most 2359296 are allowed; its content was not kept",
	}
	put("task", wire.Message{Text: "a", Meta: map[string]string{"k": strings.Repeat("x", 5<<20)}})
	put("meta", wire.Message{Text: "a", Meta: map[string]string{"k": strings.Repeat("x", 2<<20)}})
	put("attachments", wire.Message{Text: "a", Attachments: slices.Repeat([]session.Attachment{{Name: "a", Path: "p"}}, 101)})
	ran := make(chan string, 10)
	r.worker(agent.Func(func(_ context.Context, turn *agent.Turn) (agent.Result, error) {
		ran <- turn.Messages[0].ID
		return agent.Result{}, nil
	}))
	_, err := receipt.Input(r.ctx, r.client.Session(r.key), turnstile.Message{ID: "good", Text: "good"})
	expect.OK(t, err)
	o, err := r.client.Session(r.key).Wait(r.ctx, "good")
	expect.OK(t, err)
	expect.Equal(t, "the next", o.Status, session.StatusDone)
	for id, reason := range reasons {
		o, err := r.client.Session(r.key).Wait(r.ctx, id)
		expect.OK(t, err)
		if o.Status != session.StatusFailed || !strings.Contains(o.Why(), reason) {
			t.Errorf("%s: %+v", id, o)
		}
	}
	n := 0
	for d, err := range r.client.Operate(r.key).DeadLetters(r.ctx) {
		expect.OK(t, err)
		if n++; !strings.Contains(d.Outcome.Why(), reasons[d.ID]) {
			t.Errorf("%+v", d)
		}
	}
	expect.Equal(t, "dead letters", n, 3)
	expect.Equal(t, "turns", fmt.Sprintln(len(ran), <-ran), "1 good\n")
}
