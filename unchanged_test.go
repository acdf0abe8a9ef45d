package turnstile_test

import (
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/internal/chat/receipt"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// A command that Redis refuses at once has changed nothing, and the error says so. An error in the
// middle does not.
func TestWhatRedisRefusesChangesNothing(t *testing.T) {
	t.Parallel()
	server := redistest.StartServer(t)
	b := actors.BenchOn(t, server.Client())
	b.Say("a")
	b.Drain()
	b.Say("stopped")
	b.Replies("/stop", "1 waiting message")
	b.Say("waits")
	before := b.Dump()
	expect.OK(t, server.Client().ReplicaOf(b.Ctx, "127.0.0.1", "1").Err())
	for _, text := range []string{"hello", "/steer there", "/stop", "/new", "/title x", "/queue collect", "/undo", "/retry", "/resume"} {
		r, err := receipt.Input(b.Ctx, b.Client.Session(actors.Key), turnstile.Message{ID: "m", Text: text})
		if !errors.Is(err, session.ErrUnchanged) {
			t.Errorf("%s: %+v, %v", text, r, err)
		}
		if is := text[0] == '/' && text != "/steer there"; is != (r.Status == receipt.Answered) {
			t.Errorf("%s: %+v", text, r)
		}
	}
	if _, err := receipt.Input(b.Ctx, b.Client.Session(actors.Key), turnstile.Message{Text: "/status"}); err != nil {
		t.Errorf("/status only reads: %v", err)
	}
	expect.OK(t, server.Client().ReplicaOf(b.Ctx, "no", "one").Err())
	actors.Same(t, "what was refused", before, b.Dump())

	// The message is stored, and its session is not woken.
	faults := &redistest.Faults{}
	rdb := server.Client()
	rdb.AddHook(faults)
	faults.FailBefore(func(cmd redis.Cmder) bool { return cmd.Name() == "zadd" && cmd.Args()[1] == rediskey.Owned }, 1, errors.New("OOM command not allowed"))
	_, err := receipt.Input(b.Ctx, actors.NewClient(rdb).Session(actors.Key), turnstile.Message{ID: "m", Text: "hello"})
	if err == nil || errors.Is(err, session.ErrUnchanged) {
		t.Errorf("refused in the middle: %v", err)
	}
	expect.Equal(t, "state", b.State("m"), "pending")
}

// An error before the first change changes nothing, whatever the error.
func TestWhatFailsAtItsFirstLookChangesNothing(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	b.Drain()
	faults := &redistest.Faults{}
	faults.FailBefore(redistest.Any, -1, redistest.ErrLostReply)
	b.Redis.AddHook(faults)
	for _, text := range []string{"/stop", "/undo", "/retry"} {
		_, err := receipt.Input(b.Ctx, b.Client.Session(actors.Key), turnstile.Message{Text: text})
		if !errors.Is(err, session.ErrUnchanged) || !errors.Is(err, redistest.ErrLostReply) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
