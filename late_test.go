package turnstile_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// heldBack keeps a script's call from Redis, so that its sender sees an error, and delivers it
// later.
type heldBack struct {
	script string
	cmd    redis.Cmder // all its attempts
	call   []any
}

func (h *heldBack) around(cmds []redis.Cmder, send func() error) error {
	if h.cmd != nil && cmds[0] != h.cmd || !actors.Script(h.script)(cmds[0]) {
		return send()
	}
	h.cmd, h.call = cmds[0], slices.Clone(cmds[0].Args())
	cmds[0].SetErr(redistest.ErrLostReply)
	return redistest.ErrLostReply
}

// deliver sends the call, and returns Redis' reply.
func (h *heldBack) deliver(b *actors.Bench) string {
	b.Helper()
	if h.call == nil {
		b.Fatal("no call was held back")
	}
	if h.call[0] == "evalsha" {
		b.Load(h.script)
	}
	reply, err := b.Redis.Do(b.Ctx, h.call...).Result()
	expect.OK(b, err)
	return fmt.Sprint(reply)
}

// A /stop that arrives after its sender gave up does not stop later messages.
func TestLateStop(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	late := &heldBack{script: "stop"}
	b.Redis.AddHook(actors.Hook(late.around))
	ctx, cancel := context.WithTimeout(b.Ctx, 300*time.Millisecond)
	defer cancel()
	if _, err := b.Client.Session(actors.Key).Stop(ctx); err == nil {
		t.Fatal("the stop was not held back")
	}
	b.Finish(b.Start())
	b.Say("b")
	h := b.Start()
	b.Say("c")
	b.Pass(310 * time.Millisecond)
	expect.Equal(t, "result", late.deliver(b), "[late]")
	expect.List(t, "the line", b.Waiting(), "c")
	if r := b.Worker.Renew(b.Ctx, []*protocol.Claim{h})[0]; r.Requested != nil {
		t.Errorf("requested of the turn: %v", r.Requested)
	}
}

// A late /new does not replace a newer transcript: it names the one that it saw.
func TestLateRotation(t *testing.T) {
	t.Parallel()
	for _, known := range []bool{true, false} {
		t.Run(map[bool]string{true: "of a conversation", false: "of nothing"}[known], func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			if known {
				b.Say("a")
				b.Drain()
			}
			late := &heldBack{script: "rotate"}
			b.Redis.AddHook(actors.Hook(late.around))
			ctx, cancel := context.WithTimeout(b.Ctx, 300*time.Millisecond)
			defer cancel()
			if _, err := b.Client.Session(actors.Key).NewTranscript(ctx); err == nil {
				t.Fatal("the rotation was not held back")
			}
			if known { // its transcript was replaced, so a short delay suffices
				_, err := b.Client.Session(actors.Key).NewTranscript(b.Ctx)
				expect.OK(t, err)
			} else {
				b.Pass(310 * time.Millisecond)
			}
			b.Say("b")
			b.Drain()
			id := b.Info().TranscriptID
			late.deliver(b)
			expect.Equal(t, "session id", b.Info().TranscriptID, id)
		})
	}
}

// slowly returns an earlier time than the clock's.
type slowly struct{ ago time.Duration }

func (slowly) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s slowly) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if call, ok := cmd.(redistest.Reply); ok && err == nil && actors.Script("look")(cmd) {
			answer, _ := call.Slice()
			answer[0] = answer[0].(int64) - s.ago.Milliseconds()
			call.SetVal(answer)
		}
		return err
	}
}

func (slowly) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// The reply says that nothing was changed.
func TestTooLateIsSaid(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	b.Drain()
	b.Say("b")
	id := b.Info().TranscriptID
	b.Redis.AddHook(slowly{ago: time.Minute})
	_, stop := b.Client.Session(actors.Key).Stop(b.Ctx)
	_, rotate := b.Client.Session(actors.Key).NewTranscript(b.Ctx)
	for name, err := range map[string]error{"stop": stop, "rotate": rotate} {
		if !errors.Is(err, session.ErrUnchanged) || !strings.Contains(err.Error(), "too late") {
			t.Errorf("%s: %v", name, err)
		}
	}
	expect.List(t, "the line", b.Waiting(), "b")
	expect.Equal(t, "session id", b.Info().TranscriptID, id)
}
