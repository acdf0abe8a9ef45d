package turnstile_test

import (
	"errors"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/internal/chat/receipt"
	"turnstile/internal/protocol"
	"turnstile/internal/protocol/wire"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// sent submits a message with an ID, and returns the receipt's status with its state or reason.
func sent(b *actors.Bench, id, text string) string {
	b.Helper()
	r, err := receipt.Input(b.Ctx, b.Client.Session(actors.Key), turnstile.Message{ID: id, Text: text})
	expect.OK(b, err)
	return string(r.Status) + " " + string(r.State) + r.Reason
}

// An asynq.Client and Submit find each other's messages by ID. Only Send detects a conflict.
func TestIDsOfPlainSenders(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Enqueue("plain")
	expect.Equal(t, "the same", sent(b, "plain", "plain"), "duplicate pending")
	expect.Equal(t, "with another text", sent(b, "plain", "another"), "duplicate pending")

	expect.Equal(t, "submitted", sent(b, "own", "own"), "accepted ")
	enqueue := func() error {
		_, err := asynq.NewClientFromRedisClient(b.Redis).EnqueueContext(b.Ctx, asynq.NewTask(wire.TaskType, []byte(`{"v":1,"text":"own"}`)),
			asynq.Queue(actors.Queue), asynq.TaskID(b.Task("own")))
		return err
	}
	if err := enqueue(); !errors.Is(err, asynq.ErrTaskIDConflict) {
		t.Errorf("enqueued beside it: %v", err)
	}
	expect.List(t, "run", b.Drain(), "plain", "own")
	expect.OK(t, b.Inspector().DeleteTask(actors.Queue, b.Task("own")))
	expect.OK(t, enqueue())
	expect.Equal(t, "while the plain one waits", sent(b, "own", "own"), "duplicate pending")
	expect.Equal(t, "the id is still that message's", sent(b, "own", "another"), "refused conflict")
	expect.List(t, "run", b.Drain(), "own")
}

// Without the key of its ID, a message is known as long as it is stored.
func TestEvictedID(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	expect.Equal(t, "first", sent(b, "a", "a"), "accepted ")
	expect.OK(t, b.Redis.Del(b.Ctx, b.Keys.Idem("a")).Err())
	expect.Equal(t, "again", sent(b, "a", "a"), "duplicate pending")
	expect.Equal(t, "another text", sent(b, "a", "b"), "duplicate pending")
	b.Drain()
	expect.Equal(t, "after the end", sent(b, "a", "b"), "duplicate completed")
	expect.OK(t, b.Inspector().DeleteTask(actors.Queue, b.Task("a")))
	expect.Equal(t, "when nothing is left", sent(b, "a", "b"), "accepted ")
}

// A key of a wrong type blocks only its ID. Nothing is stored.
func TestIDWithAKeyOfAWrongType(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	expect.OK(t, b.Redis.RPush(b.Ctx, b.Keys.Idem("a"), "x").Err())
	before := database(b)
	_, err := receipt.Input(b.Ctx, b.Client.Session(actors.Key), turnstile.Message{ID: "a", Text: "a"})
	if err == nil || !redis.HasErrorPrefix(err, "WRONGTYPE") {
		t.Errorf("error: %v", err)
	}
	expect.Equal(t, "state", b.State("a"), "")
	expect.Equal(t, "keys of the session", len(b.Redis.Keys(b.Ctx, "*:pending").Val()), 0)
	if before == "" {
		t.Error("the key is gone")
	}
	expect.Equal(t, "another id", sent(b, "b", "b"), "accepted ")
}

// The reply is lost, the message's turn ends, and nothing of it is kept: the repeated request does
// not store it again.
func TestLostReplyOfAMessageWithoutRetention(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t, func(c *protocol.Config) { c.Retention = 0 })
	again, first := &redistest.Faults{}, &redistest.Faults{}
	again.RunTwice(actors.Script("accept"), 1)
	stored := first.GateReply(actors.Script("accept"))
	worker := actors.BenchOn(t, b.BareRedis())
	worker.Worker = actors.NewWorker(t, worker.Redis, "other", func(c *protocol.Config) { c.Retention = 0 })
	b.Redis.AddHook(again)
	b.Redis.AddHook(first)
	receipts := make(chan receipt.Receipt, 1)
	go func() {
		r, err := receipt.Input(b.Ctx, b.Client.Session(actors.Key), turnstile.Message{ID: "a", Text: "a"})
		if err != nil {
			t.Error(err)
		}
		receipts <- r
	}()
	<-stored.Arrived()
	expect.List(t, "run", worker.Drain(), "a")
	expect.Equal(t, "kept", worker.State("a"), "")
	stored.Release()
	r := <-receipts
	expect.Equal(t, "receipt", string(r.Status)+r.Reason, "accepted")
	expect.List(t, "run again", worker.Drain())
	expect.Equal(t, "another Submit", sent(b, "a", "a"), "refused expired")
}

// The client sets how long IDs are remembered.
func TestIdempotencyTTL(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	c := turnstile.NewClient(b.Redis, turnstile.ClientConfig{RememberIDs: time.Hour})
	_, err := receipt.Input(b.Ctx, c.Session(actors.Key), turnstile.Message{ID: "a", Text: "a"})
	expect.OK(t, err)
	c = turnstile.NewClient(b.Redis, turnstile.ClientConfig{RememberIDs: time.Nanosecond})
	_, err = receipt.Input(b.Ctx, c.Session(actors.Key), turnstile.Message{ID: "b", Text: "b"})
	expect.OK(t, err)
	expect.List(t, "in line", b.Waiting(), "a", "b")
	if ttl := b.Redis.TTL(b.Ctx, b.Keys.Idem("a")).Val(); ttl <= 59*time.Minute || ttl > time.Hour {
		t.Errorf("the id is remembered for %s", ttl)
	}
}
