package turnstile_test

import (
	"errors"
	"fmt"
	"testing"

	"turnstile/internal/protocol"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
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
	if err := h.Requeue(b.Ctx, "drain"); !errors.Is(err, protocol.ErrStopRequested) {
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
