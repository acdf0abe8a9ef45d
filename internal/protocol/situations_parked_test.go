package protocol_test

import (
	"errors"
	"time"

	"turnstile"
	"turnstile/internal/protocol"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// parked begins a turn with steps, "now", and parks it for that long, with another message behind it.
func parked(b *actors.Bench, wait time.Duration) {
	b.Helper()
	b.SayAll("now", "next")
	h := b.Start()
	stepped(b, h, 1)
	expect.OK(b, h.Retry(b.Ctx, errors.New("no"), wait, -1))
}

// waits parks a turn, "now", for the decision on its question 1.
func waits(b *actors.Bench) {
	b.Helper()
	b.SayAll("now", "next")
	h := b.Start()
	stepped(b, h, 1)
	_, err := h.AskFor(b.Ctx, "pay", session.Question{Name: "pay"})
	expect.OK(b, err)
	expect.OK(b, h.Park(b.Ctx, 1, "", time.Hour))
}

// waitsFor parks a turn, "now", for a program's value, which it may have.
func waitsFor(b *actors.Bench, value string) {
	b.Helper()
	b.SayAll("now", "next")
	h := b.Start()
	stepped(b, h, 1)
	_, err := h.WaitFor(b.Ctx, "payment", "secret", false, 0)
	expect.OK(b, err)
	expect.OK(b, h.Park(b.Ctx, 1, "payment", time.Hour))
	if value != "" {
		expect.OK(b, b.Chat().Give(b.Ctx, turnstile.Value{Key: "payment", JSON: []byte(value)}))
	}
}

// parkedSituations are those of turns with steps that are parked.
func parkedSituations() []situation {
	stepping := func(b *actors.Bench) *protocol.Claim {
		b.SayAll("now", "next")
		h := b.Start()
		stepped(b, h, 1)
		return h
	}
	after := func(wait time.Duration, move func(b *actors.Bench) func() error) func(b *actors.Bench) func() error {
		return func(b *actors.Bench) func() error {
			parked(b, wait)
			return move(b)
		}
	}
	stops := func(b *actors.Bench) func() error {
		return func() error { _, err := b.Client.Session(actors.Key).Stop(b.Ctx); return err }
	}
	accepts := func(mode session.Mode) func(b *actors.Bench) func() error {
		return func(b *actors.Bench) func() error { return acceptMove(b, "new", mode) }
	}
	claims := func(ask func(b *actors.Bench)) func(b *actors.Bench) func() error {
		return func(b *actors.Bench) func() error {
			ask(b)
			return claimMove(b)
		}
	}
	return []situation{
		{"requeue", "parks after a failure", func(b *actors.Bench) func() error {
			h := stepping(b)
			return func() error { return h.Retry(b.Ctx, errors.New("no"), time.Hour, -1) }
		}},
		{"requeue", "parks in a drain", func(b *actors.Bench) func() error {
			h := stepping(b)
			return func() error { return h.Requeue(b.Ctx, "drain") }
		}},
		{"requeue", "parks for a question", func(b *actors.Bench) func() error {
			h := stepping(b)
			_, err := h.AskFor(b.Ctx, "pay", session.Question{Name: "pay"})
			expect.OK(b, err)
			return func() error { return h.Park(b.Ctx, 1, "", time.Hour) }
		}},
		{"decide", "for a parked turn", func(b *actors.Bench) func() error {
			waits(b)
			return func() error { _, err := b.Chat().Decide(b.Ctx, "1", session.Allow); return err }
		}},
		{"decide", "gives a value", func(b *actors.Bench) func() error {
			waitsFor(b, "")
			return func() error {
				return b.Chat().Give(b.Ctx, turnstile.Value{Key: "payment", Secret: "secret", JSON: []byte(`{"paid":true}`)})
			}
		}},
		{"ask", "for a value", func(b *actors.Bench) func() error {
			h := stepping(b)
			return func() error { _, err := h.WaitFor(b.Ctx, "payment", "secret", false, 0); return err }
		}},
		{"ask", "for a value that is given", func(b *actors.Bench) func() error {
			waitsFor(b, `{"paid":true}`)
			h := b.Start()
			return func() error { _, err := h.WaitFor(b.Ctx, "payment", "secret", false, 0); return err }
		}},
		{"ask", "again", func(b *actors.Bench) func() error {
			waits(b)
			b.Redis.HSet(b.Ctx, b.Keys.Run(), "hold", "1 "+b.Task("now"))
			h := b.Start()
			return func() error { _, err := h.AskFor(b.Ctx, "pay", session.Question{Name: "pay"}); return err }
		}},
		{"ask", "again, when it is decided", func(b *actors.Bench) func() error {
			waits(b)
			_, err := b.Chat().Decide(b.Ctx, "1", session.Allow)
			expect.OK(b, err)
			h := b.Start()
			return func() error { _, err := h.AskFor(b.Ctx, "pay", session.Question{Name: "pay"}); return err }
		}},
		{"claim", "waiting and stopped", func(b *actors.Bench) func() error {
			waits(b)
			expect.OK(b, cancelMove(b, "now", true)())
			return claimMove(b)
		}},
		{"claim", "parked", after(0, claims(func(*actors.Bench) {}))},
		{"claim", "parked and stopped", after(time.Hour, claims(func(b *actors.Bench) { expect.OK(b, cancelMove(b, "now", true)()) }))},
		{"claim", "parked and interrupted", after(time.Hour, claims(func(b *actors.Bench) { b.Say("new", session.ModeInterrupt) }))},
		{"claim", "parked and rolled back", after(time.Hour, claims(func(b *actors.Bench) { b.Say("new", session.ModeRollback) }))},
		{"unclaim", "parked", after(0, func(b *actors.Bench) func() error {
			loseClaim(b, "claim")
			return func() error { return b.Worker.Unclaim(b.Ctx) }
		})},
		{"accept", "behind a parked turn", after(time.Hour, accepts(session.ModeQueue))},
		{"accept", "ends a parked turn", after(time.Hour, accepts(session.ModeInterrupt))},
		{"stop", "of a parked turn", after(time.Hour, stops)},
		{"cancel", "of a parked turn", after(time.Hour, func(b *actors.Bench) func() error { return cancelMove(b, "now", true) })},
		{"look", "at a parked turn", after(time.Hour, func(b *actors.Bench) func() error {
			return func() error { return protocol.Do(b.Ctx, b.Redis, "look", protocol.KeysOf(actors.Key, ""), nil).Err() }
		})},
	}
}

// parkedLives are the transitions of parked turns that the situations leave out.
func parkedLives() map[string]func(b *actors.Bench) {
	immediately := func(b *actors.Bench) {
		b.Worker = actors.NewWorker(b.T, b.Redis, "other", func(c *protocol.Config) { c.Immediate = true })
	}
	marked := func(b *actors.Bench, h *protocol.Claim) {
		expect.OK(b, b.Worker.Mark(b.Ctx, []*protocol.Claim{h}, "drain")[0].Err)
		expect.OK(b, h.Requeue(b.Ctx, "drain"))
	}
	return map[string]func(b *actors.Bench){
		"parked, goes on at once":      func(b *actors.Bench) { parked(b, 0); immediately(b); b.Claim() },
		"parked, drained in the start": func(b *actors.Bench) { parked(b, 0); expect.OK(b, b.Claim().Requeue(b.Ctx, "drain")) },
		"parked, drained in the end": func(b *actors.Bench) {
			parked(b, 0)
			marked(b, b.Start())
		},
		"parked, reply lost": func(b *actors.Bench) {
			parked(b, 0)
			immediately(b)
			loseClaim(b, "claim")
			expect.OK(b, b.Worker.Unclaim(b.Ctx))
		},
		"parked, erased": func(b *actors.Bench) { parked(b, time.Hour); expect.OK(b, b.Client.Operate(actors.Key).Erase(b.Ctx)) },
		"parked, stopped": func(b *actors.Bench) {
			parked(b, time.Hour)
			_, err := b.Client.Session(actors.Key).Stop(b.Ctx)
			expect.OK(b, err)
			b.ClaimNothing("it was stopped")
		},
	}
}
