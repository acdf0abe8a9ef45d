package openai_test

import (
	"context"
	"strings"
	"testing"
	"time"

	sdk "github.com/openai/openai-go/v3"
	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/internal/http/store"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/admin"
	"turnstile/pkg/agent"
	"turnstile/test/expect"
)

// temporary returns the temporary sessions, and all keys of sessions.
func (r *rig) temporary() (sessions, keys []string) {
	r.Helper()
	sessions = r.redis.ZRange(r.Context(), rediskey.Temporary, 0, -1).Val()
	return sessions, append(r.redis.Keys(r.Context(), "turnstile:{*").Val(), r.redis.Keys(r.Context(), "asynq:{session:*").Val()...)
}

func (r *rig) gone() bool {
	r.Helper()
	sessions, keys := r.temporary()
	return len(sessions)+len(keys) == 0
}

// Any gateway erases a temporary session completely, also after the death of the gateway that made
// it.
func TestOneShotIsErasedByAnyGateway(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.worker()
	for _, text := range []string{"hello", "fail=final x"} {
		_, _ = r.sdk.Chat.Completions.New(t.Context(), chat(sdk.UserMessage(text))) // the second one fails
	}
	sessions, _ := r.temporary()
	expect.Equal(t, "sessions", len(sessions), 2)
	r.eraseAfter = 50 * time.Millisecond
	r.gateway()
	expect.Soon(t, "nothing is left", r.gone)
	for s, err := range admin.NewClient(r.redis).Sessions(t.Context(), admin.Query{}) {
		t.Errorf("%s is listed, %v", s.Session, err)
	}
	for _, queue := range r.redis.SMembers(t.Context(), rediskey.AllQueues).Val() {
		if strings.HasPrefix(queue, rediskey.Queue("")) { // the worker's maintenance has one, too
			t.Errorf("%s is in asynqmon", queue)
		}
	}
}

// A gateway that dies between the two writes leaves an indexed name without a session, or a session
// that is erased.
func TestOneShotThatNeverBegan(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	expect.OK(t, store.New(r.redis).MakeTemporary(t.Context(), "never"))
	r.eraseAfter = 20 * time.Millisecond
	r.gateway()
	expect.Soon(t, "nothing is left", r.gone)
}

// looks waits until a gateway has looked at a temporary session three times.
func (r *rig) looks(sessionKey string) {
	r.Helper()
	score := func() float64 { return r.redis.ZScore(r.Context(), rediskey.Temporary, sessionKey).Val() }
	for range 3 {
		last := score()
		expect.Soon(r, "a look", func() bool { return score() > last })
	}
}

// A turn that outlives the pause is not erased, and neither is a session with an undelivered
// outcome.
func TestOneShotThatIsStillUsed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	end := make(chan struct{})
	r.workerOf(agent.Func(func(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
		select {
		case <-end:
		case <-ctx.Done():
		}
		return agent.Result{Text: "re: " + turn.Text()}, context.Cause(ctx)
	}))
	replies := make(chan string, 1)
	go func() {
		got, err := r.sdk.Chat.Completions.New(t.Context(), chat(sdk.UserMessage("hello")))
		if err != nil {
			replies <- err.Error()
			return
		}
		replies <- got.Choices[0].Message.Content
	}()
	expect.Soon(t, "the message is stored", func() bool { _, keys := r.temporary(); return len(keys) > 0 })
	sessions, _ := r.temporary()
	r.eraseAfter = 20 * time.Millisecond
	eraser, _ := r.gateway()
	r.looks(sessions[0])
	expect.OK(t, eraser.Stop(t.Context())) // it would not wait until the reply is read
	close(end)
	expect.Equal(t, "reply", expect.Received(t, "a reply", replies), "re: hello")
	r.gateway()
	expect.Soon(t, "it is erased", r.gone)

	// Somebody else has sent a message to the session, with a destination for its outcome.
	operator := admin.NewClient(r.redis)
	receipt, err := r.client.Session("s").Send(t.Context(), turnstile.Message{Text: "hello", ReplyTo: "hook"})
	expect.OK(t, err)
	// As if another gateway had marked it: an empty session is erased at once.
	expect.OK(t, r.redis.ZAdd(t.Context(), rediskey.Temporary, redis.Z{Member: "s"}).Err())
	_, err = r.client.Session("s").Wait(t.Context(), receipt.ID)
	expect.OK(t, err)
	r.looks("s")
	owing, err := operator.Session("s").Undelivered(t.Context())
	expect.OK(t, err)
	expect.Equal(t, "not delivered", owing.Waiting, 1)
	for _, record := range r.redis.ZRange(t.Context(), rediskey.For("s").Outbox(), 0, -1).Val() { // as a deliverer does at the end
		expect.Equal(t, "to", strings.HasPrefix(record, "hook "), true)
		expect.OK(t, r.redis.ZRem(t.Context(), rediskey.For("s").Outbox(), record).Err())
	}
	expect.Soon(t, "it is erased", r.gone)
}
