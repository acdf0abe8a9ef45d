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

// A stop applies to all messages that wait when it comes, whatever happens to one of them
// meanwhile, such as a full queue's refusal.
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
		if calls++; calls == 1 { // as asynqmon does
			id := b.Task(fmt.Sprint("m", n-1))
			expect.OK(t, b.Redis.LRem(b.Ctx, b.Keys.Pending(), 1, id).Err())
			expect.OK(t, b.Redis.Del(b.Ctx, b.Keys.Task(id)).Err())
		}
	}))
	_, err := b.Client.Session(actors.Key).Stop(b.Ctx)
	expect.OK(t, err)
	expect.Equal(t, "messages left", len(b.Waiting()), 0)
	if got := b.Info().DeadLetters; got < n-1 {
		t.Errorf("%d archived, want %d", got, n-1)
	}
}

// Each stop has its own result, so that a repetition after another stop does not stop a later turn.
func TestStopSentAgainBehindAnother(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	h := b.Start()
	fence := h.Turn().Fence
	other := another(b)
	b.Redis.AddHook(actors.SendTwice(actors.Script("stop"), func() {
		_, err := other.Session(actors.Key).Stop(b.Ctx)
		expect.OK(t, err)
		_, err = h.Finish(b.Ctx, protocol.End{Status: session.StatusStopped})
		expect.OK(t, err)
		b.Say("b")
		h = b.Start()
	}))
	s, err := b.Client.Session(actors.Key).Stop(b.Ctx)
	expect.OK(t, err)
	expect.Equal(t, "stopped", s, session.Stopped{Phase: "running", Fence: fence})
	if r := b.Worker.Renew(b.Ctx, []*protocol.Claim{h})[0]; r.Requested != nil {
		t.Errorf("requested of the next turn: %v", r.Requested)
	}
}

// A stop of an unknown session leaves nothing.
func TestStopOfNothing(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	_, err := b.Client.Session(actors.Key).Stop(b.Ctx)
	expect.OK(t, err)
	keys, err := b.Redis.Keys(b.Ctx, "*{session:"+actors.Key+"}*").Result()
	expect.OK(t, err)
	expect.List(t, "keys", keys)
	b.Say("a", session.ModeReject)
	expect.List(t, "runs", b.Drain(), "a")
}

// A /stop that is repeated after a lost reply returns the count of the first.
func TestStopSentTwiceCountsOnce(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	h := b.Start()
	b.SayAll("b", "c")
	fence := h.Turn().Fence
	b.Redis.AddHook(actors.SendTwice(actors.Script("stop"), func() {
		_, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusStopped})
		expect.OK(t, err)
	}))
	s, err := b.Client.Session(actors.Key).Stop(b.Ctx)
	expect.OK(t, err)
	expect.Equal(t, "stopped", s, session.Stopped{Phase: "running", Fence: fence, Dropped: 2})
	// Another stop counts its own.
	b.SayAll("d", "e", "f")
	s, err = b.Client.Session(actors.Key).Stop(b.Ctx)
	expect.OK(t, err)
	expect.Equal(t, "stopped again", s, session.Stopped{Phase: "idle", Fence: fence, Dropped: 3})
}

func TestStopOfAnIdleSession(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	reply, err := b.Client.Command(b.Ctx, actors.Key, "/stop", "")
	expect.OK(t, err)
	if reply != "Nothing is running." {
		t.Errorf("reply: %q", reply)
	}
	b.Say("alone")
	b.Replies("/stop", "Nothing is running. 1 waiting message is now a dead letter; /resume reruns it.")
	b.Replies("/status", "1 dead letter; ")
	b.Replies("/resume", "Rerunning 1 message.")
	b.Say("together")
	b.Replies("/stop", "Nothing is running. 2 waiting messages are now dead letters; /resume reruns them.")
	b.Replies("/status", "2 dead letters; ")
	b.SayAll("a", "b")
	s, err := b.Client.Session(actors.Key).Stop(b.Ctx)
	expect.OK(t, err)
	expect.Equal(t, "found", s, session.Stopped{Phase: session.PhaseIdle, Dropped: 2})
	expect.Equal(t, "a", b.Outcome("a").Status, session.StatusStopped)
	b.ClaimNothing("all was stopped")
	b.Say("c")
	expect.List(t, "runs", b.Drain(), "c")
}

func TestStopOfARunningTurn(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	h := b.Start()
	b.SayAll("b", "c")
	s, err := b.Client.Session(actors.Key).Stop(b.Ctx)
	expect.OK(t, err)
	expect.Equal(t, "found", s, session.Stopped{Phase: "running", Fence: h.Turn().Fence, Dropped: 2})
	b.Say("d")
	if r := b.Worker.Renew(b.Ctx, []*protocol.Claim{h})[0]; !errors.Is(r.Requested, protocol.ErrStopRequested) || r.Fence != h.Turn().Fence {
		t.Errorf("renewal: %+v", r)
	}
	if err := h.Park(b.Ctx, protocol.Parking{Interrupted: "drain"}); !errors.Is(err, protocol.ErrStopRequested) {
		t.Errorf("requeue: %v", err)
	}
	more, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusStopped, Error: "stopped by user"})
	expect.OK(t, err)
	expect.Equal(t, "has a next turn", more, true)
	expect.Equal(t, "with what came afterwards", h.Turn().Message.ID, "d")
	if r := b.Worker.Renew(b.Ctx, []*protocol.Claim{h})[0]; r.Requested != nil {
		t.Errorf("requested of the next turn: %v", r.Requested)
	}
	expect.OK(t, h.Promote(b.Ctx))
}

// A stop archives in batches, and does not apply to messages that come meanwhile.
func TestStopInBatches(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	const n = 1203
	b.Say("now")
	b.Start()
	for i := range n {
		b.Enqueue(fmt.Sprint("m", i))
	}
	calls := 0
	b.Redis.AddHook(actors.Behind(actors.Script("stop"), func() {
		if calls++; calls == 1 {
			b.Enqueue("meanwhile")
		}
	}))
	s, err := b.Client.Session(actors.Key).Stop(b.Ctx)
	expect.OK(t, err)
	expect.Equal(t, "dropped", s.Dropped, n)
	expect.Equal(t, "calls", calls, 3)
	expect.List(t, "the line", b.Waiting(), "meanwhile")
	expect.Equal(t, "archived", b.Info().DeadLetters, n)
	expect.Equal(t, "last", b.Outcome(fmt.Sprint("m", n-1)).Status, session.StatusStopped)
}

// A sender that waits for a stopped message gets its outcome.
func TestStoppedWhileWaiting(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	b.Start()
	b.Say("b")
	got := b.WaitFor("b")
	_, err := b.Client.Session(actors.Key).Stop(b.Ctx)
	expect.OK(t, err)
	expect.Equal(t, "status", (<-got).Status, session.StatusStopped)
}

// If a sender dies during a stop, claims archive the rest before they take a message.
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
		expect.Equal(t, "archived by the sender", b.Info().DeadLetters, 500)
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

// A stop after an unfinished one archives that one's messages, too.
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
	s, err := b.Client.Session(actors.Key).Stop(b.Ctx)
	expect.OK(t, err)
	expect.Equal(t, "stopped", s, session.Stopped{Phase: "running", Fence: h.Turn().Fence, Dropped: 2})
	expect.Equal(t, "archived", b.Info().DeadLetters, 1102)
	expect.List(t, "the line", b.Waiting())
}

// A stop returns how many messages it applies to, also if workers have archived some of them.
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
			claims, err := w.Claim(b.Ctx, []string{actors.Key})
			expect.OK(t, err)
			expect.Equal(t, "claims", len(claims), 0)
		}
	}))
	s, err := b.Client.Session(actors.Key).Stop(b.Ctx)
	expect.OK(t, err)
	expect.Equal(t, "dropped", s.Dropped, n)
	expect.Equal(t, "archived", b.Info().DeadLetters, n)
}

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
