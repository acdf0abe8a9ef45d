package turnstile_test

import (
	"fmt"
	"testing"

	"turnstile/internal/protocol"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

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
