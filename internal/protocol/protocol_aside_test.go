package protocol_test

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
	"turnstile/internal/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// A stop means all that waits when it comes, whatever becomes of any one message
// while it is archived: that a full line refuses the newest, say.
func TestStopBesideRefusals(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	const n = 1100
	b.Say("now")
	b.Start()
	for i := range n {
		b.Enqueue(fmt.Sprint("m", i))
	}
	calls := 0
	b.Redis.AddHook(actors.Behind(actors.Script("stop"), func() {
		if calls++; calls == 1 { // what ring does with the newest if it refuses it
			id := b.Task(fmt.Sprint("m", n-1))
			expect.OK(t, b.Redis.LRem(b.Ctx, b.Keys.Pending(), 1, id).Err())
			expect.OK(t, b.Redis.Del(b.Ctx, b.Keys.Task(id)).Err())
		}
	}))
	_, err := b.Client.Stop(b.Ctx, actors.Key)
	expect.OK(t, err)
	expect.Equal(t, "messages left", len(b.Waiting()), 0)
	if got := b.Info().Archived; got < n-1 {
		t.Errorf("%d archived, want %d", got, n-1)
	}
}

// Of a stop whose sender has died claims archive the rest, before they take anything.
func TestStopWhoseSenderDies(t *testing.T) {
	t.Parallel()
	const n = 1100
	line := func(b *actors.Bench) {
		for i := range n {
			b.Enqueue(fmt.Sprint("m", i))
		}
	}
	t.Run("idle", func(t *testing.T) {
		t.Parallel()
		b := actors.NewBench(t)
		line(b)
		b.StopAndDie(actors.Script("stop"))
		expect.Equal(t, "archived by the sender", b.Info().Archived, 500)
		b.Say("later")
		expect.List(t, "runs", b.Work(), "later")
		b.StopEnded(n)
	})
	for name, later := range map[string][]string{"running": nil, "running, with more to come": {"later"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			b.Say("now")
			h := b.Start()
			line(b)
			b.StopAndDie(actors.Script("stop"))
			b.SayAll(later...)
			more, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusStopped})
			expect.OK(t, err)
			for more {
				more = b.Finish(h)
			}
			expect.List(t, "runs", b.Work())
			b.StopEnded(n + 1)
		})
	}
}

// A worker finds what a dead sender's stop has left, though nobody sends any more.
func TestStoppedMessagesAreFound(t *testing.T) {
	t.Parallel()
	const n = 1100
	for by, look := range map[string]func(b *actors.Bench){
		"reap":  func(b *actors.Bench) { b.StopAndDie(redistest.Named("zadd")); b.Overdue(rediskey.Owned); b.Reap() },
		"sweep": func(b *actors.Bench) { b.StopAndDie(actors.Script("stop")); b.Sweep() },
	} {
		t.Run(by, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			for i := range n {
				b.Enqueue(fmt.Sprint("m", i))
			}
			look(b)
			expect.List(t, "runs", b.Work())
			b.StopEnded(n)
		})
	}
}

// A stop behind one whose sender has died archives that one's messages, too.
func TestStopBehindAnother(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("now")
	h := b.Start()
	for i := range 1100 {
		b.Enqueue(fmt.Sprint("m", i))
	}
	b.StopAndDie(actors.Script("stop"))
	b.SayAll("a", "b")
	s, err := b.Client.Stop(b.Ctx, actors.Key)
	expect.OK(t, err)
	expect.Equal(t, "stopped", s, session.Stopped{Phase: "running", Fence: h.Turn().Fence, Dropped: 2})
	expect.Equal(t, "archived", b.Info().Archived, 1102)
	expect.List(t, "the line", b.Waiting())
}

// A stop tells how many messages it means, also where workers have archived some of them.
func TestStopCountsWhatWorkersArchive(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	const n = 1203
	for i := range n {
		b.Enqueue(fmt.Sprint("m", i))
	}
	calls := 0
	b.Redis.AddHook(actors.Behind(actors.Script("stop"), func() {
		if calls++; calls == 2 {
			w := actors.NewWorker(b.T, b.BareRedis(), "two")
			holds, err := w.Claim(b.Ctx, []string{actors.Key})
			expect.OK(t, err)
			expect.Equal(t, "holds", len(holds), 0)
		}
	}))
	s, err := b.Client.Stop(b.Ctx, actors.Key)
	expect.OK(t, err)
	expect.Equal(t, "dropped", s.Dropped, n)
	expect.Equal(t, "archived", b.Info().Archived, n)
}

// heldBack keeps a script's call from Redis, which its sender takes for a failure, and
// has it delivered later.
type heldBack struct {
	script string
	call   []any
}

func (h *heldBack) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *heldBack) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if h.call == nil && actors.Script(h.script)(cmd) {
			h.call = slices.Clone(cmd.Args())
			cmd.SetErr(redistest.ErrLostReply)
			return redistest.ErrLostReply
		}
		return next(ctx, cmd)
	}
}

func (h *heldBack) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// deliver lets the call through, and answers what Redis says.
func (h *heldBack) deliver(b *actors.Bench) string {
	b.Helper()
	if h.call == nil {
		b.Fatal("nothing was held back")
	}
	if h.call[0] == "evalsha" {
		b.Load(h.script)
	}
	reply, err := b.Redis.Do(b.Ctx, h.call...).Result()
	expect.OK(b, err)
	return fmt.Sprint(reply)
}

// A /stop that a network delivers after its sender has given up means nothing that has
// come since.
func TestLateStop(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	late := &heldBack{script: "stop"}
	b.Redis.AddHook(late)
	ctx, cancel := context.WithTimeout(b.Ctx, 300*time.Millisecond)
	defer cancel()
	if _, err := b.Client.Stop(ctx, actors.Key); err == nil {
		t.Fatal("the stop was not held back")
	}
	b.Finish(b.Start())
	b.Say("b")
	h := b.Start()
	b.Say("c")
	b.Pass(310 * time.Millisecond)
	expect.Equal(t, "answer", late.deliver(b), "[late]")
	expect.List(t, "the line", b.Waiting(), "c")
	if r := b.Worker.Renew(b.Ctx, []*protocol.Claim{h})[0]; r.Requested != nil {
		t.Errorf("the turn is asked %v", r.Requested)
	}
}

// A /new that comes late is not meant for a conversation that has begun since: it names
// the one that it saw.
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
			b.Redis.AddHook(late)
			ctx, cancel := context.WithTimeout(b.Ctx, 300*time.Millisecond)
			defer cancel()
			if _, err := b.Client.Rotate(ctx, actors.Key, ""); err == nil {
				t.Fatal("the rotation was not held back")
			}
			if known { // what it saw is gone: no time is to pass
				_, err := b.Client.Rotate(b.Ctx, actors.Key, "")
				expect.OK(t, err)
			} else {
				b.Pass(310 * time.Millisecond)
			}
			b.Say("b")
			b.Drain()
			id := b.Info().SessionID
			late.deliver(b)
			expect.Equal(t, "session id", b.Info().SessionID, id)
		})
	}
}

// slowly answers a look at the clock as it was a while ago.
type slowly struct{ ago time.Duration }

func (slowly) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s slowly) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if call, ok := cmd.(*redis.Cmd); ok && err == nil && actors.Script("look")(cmd) {
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

// The user is told that nothing has happened.
func TestTooLateIsSaid(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	b.Drain()
	b.Say("b")
	id := b.Info().SessionID
	b.Redis.AddHook(slowly{ago: time.Minute})
	_, stop := b.Client.Stop(b.Ctx, actors.Key)
	_, rotate := b.Client.Rotate(b.Ctx, actors.Key, "")
	for name, err := range map[string]error{"stop": stop, "rotate": rotate} {
		if !errors.Is(err, session.ErrUnchanged) || !strings.Contains(err.Error(), "too late") {
			t.Errorf("%s: %v", name, err)
		}
	}
	expect.List(t, "the line", b.Waiting(), "b")
	expect.Equal(t, "session id", b.Info().SessionID, id)
}

// A stop's answer is its own: another one's does not take its place, so that its
// repetition stops nobody else's turn.
func TestStopSentAgainBehindAnother(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	h := b.Start()
	fence := h.Turn().Fence
	other := another(b)
	b.Redis.AddHook(actors.SendTwice(actors.Script("stop"), func() {
		_, err := other.Stop(b.Ctx, actors.Key)
		expect.OK(t, err)
		_, err = h.Finish(b.Ctx, protocol.End{Status: session.StatusStopped})
		expect.OK(t, err)
		b.Say("b")
		h = b.Start()
	}))
	s, err := b.Client.Stop(b.Ctx, actors.Key)
	expect.OK(t, err)
	expect.Equal(t, "stopped", s, session.Stopped{Phase: "running", Fence: fence})
	if r := b.Worker.Renew(b.Ctx, []*protocol.Claim{h})[0]; r.Requested != nil {
		t.Errorf("the next turn is asked %v", r.Requested)
	}
}

// A stop of a session that nobody knows leaves nothing.
func TestStopOfNothing(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	_, err := b.Client.Stop(b.Ctx, actors.Key)
	expect.OK(t, err)
	keys, err := b.Redis.Keys(b.Ctx, "*{session:"+actors.Key+"}*").Result()
	expect.OK(t, err)
	expect.List(t, "keys", keys)
	b.Say("a", session.ModeReject)
	expect.List(t, "runs", b.Drain(), "a")
}
