package protocol_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"testing"
	"time"

	"turnstile"

	"github.com/hibiken/asynq"

	"turnstile/internal/chat/receipt"
	"turnstile/internal/protocol/wire"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// A message that the script accept stores is the task that asynq.Client stores, in each of its
// fields, and asynq's Inspector reads the same of both.
func TestContract_AcceptStoresWhatAsynqStores(t *testing.T) {
	t.Parallel()
	for name, delay := range map[string]time.Duration{"pending": 0, "scheduled": time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			m := turnstile.Message{ID: "a", Text: "<ü> \u2028", Meta: map[string]string{"k": "v"}, ExpiresIn: time.Minute}
			var opts []actors.Option
			if delay > 0 {
				opts = append(opts, actors.Delay(delay))
			}
			_, err := receipt.Input(b.Ctx, b.Client.Session(actors.Key), actors.With(m, opts...))
			expect.OK(t, err)
			got := storedTask(b, "a")
			expect.OK(t, b.Client.Operate(actors.Key).Erase(b.Ctx))

			payload, err := wire.Message{Text: m.Text, Meta: m.Meta, ExpiresIn: wire.Duration(m.ExpiresIn)}.Payload()
			expect.OK(t, err)
			nonce := regexp.MustCompile("turnstile-nonce..([A-Z2-7]{26})").FindStringSubmatch(got.fields["msg"])
			if len(nonce) != 2 {
				t.Fatalf("no nonce in %q", got.fields["msg"])
			}
			task := asynq.NewTaskWithHeaders(wire.TaskType, payload, map[string]string{"turnstile-nonce": nonce[1]})
			_, err = asynq.NewClientFromRedisClient(b.Redis).EnqueueContext(b.Ctx, task,
				asynq.Queue(actors.Queue), asynq.TaskID(b.Task("a")), asynq.MaxRetry(2), asynq.ProcessIn(delay))
			expect.OK(t, err)
			want := storedTask(b, "a")

			for _, own := range []string{"seen", "seq"} {
				if got.fields[own] == "" {
					t.Errorf("no %s", own)
				}
				delete(got.fields, own)
			}
			expect.List(t, "fields", slices.Sorted(maps.Keys(got.fields)), slices.Sorted(maps.Keys(want.fields))...)
			expect.Equal(t, "msg", got.fields["msg"], want.fields["msg"])
			expect.Equal(t, "state", got.fields["state"], want.fields["state"])
			expect.Equal(t, "digits of pending_since", len(got.fields["pending_since"]), len(want.fields["pending_since"]))
			expect.List(t, "line", got.line, want.line...)
			expect.List(t, "asynq's keys", got.keys, want.keys...)
			if later := want.due - got.due; later < 0 || later > 5 {
				t.Errorf("asynq's is due %v s later", later)
			}
			expect.Equal(t, "as the Inspector reads it", got.info, want.info)
		})
	}
}

// taskStored is a message's stored task.
type taskStored struct {
	fields     map[string]string
	line, keys []string
	due        float64 // s
	info       string  // as asynq's Inspector reads it
}

func storedTask(b *actors.Bench, id string) taskStored {
	b.Helper()
	info := inspect(b, id)
	info.NextProcessAt = time.Time{} // due has it
	s := taskStored{
		fields: b.Redis.HGetAll(b.Ctx, b.Keys.Task(b.Task(id))).Val(),
		line:   b.Waiting(), keys: b.Redis.Keys(b.Ctx, "asynq:*").Val(),
		due:  b.Redis.ZScore(b.Ctx, b.Keys.Scheduled(), b.Task(id)).Val(),
		info: fmt.Sprintf("%+v", info),
	}
	slices.Sort(s.keys)
	return s
}
