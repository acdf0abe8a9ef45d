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
	expect.OK(b, h.Park(b.Ctx, protocol.Parking{Failed: errors.New("no"), Wait: wait}))
}

// waits parks a turn, "now", for the decision on its question 1.
func waits(b *actors.Bench) {
	b.Helper()
	b.SayAll("now", "next")
	h := b.Start()
	stepped(b, h, 1)
	_, err := h.AskFor(b.Ctx, "pay", session.Question{Name: "pay"})
	expect.OK(b, err)
	expect.OK(b, h.Park(b.Ctx, protocol.Parking{Question: 1, Wait: time.Hour}))
}

// waitsFor parks a turn, "now", for a program's value, which it may have.
func waitsFor(b *actors.Bench, value string) {
	b.Helper()
	b.SayAll("now", "next")
	h := b.Start()
	stepped(b, h, 1)
	_, err := h.WaitFor(b.Ctx, "payment", "secret", false, 0)
	expect.OK(b, err)
	expect.OK(b, h.Park(b.Ctx, protocol.Parking{Question: 1, Key: "payment", Wait: time.Hour}))
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
		{"park", "after a failure, with steps", func(b *actors.Bench) func() error {
			h := stepping(b)
			return func() error { return h.Park(b.Ctx, protocol.Parking{Failed: errors.New("no"), Wait: time.Hour}) }
		}},
		{"park", "in a drain, with steps", func(b *actors.Bench) func() error {
			h := stepping(b)
			return func() error { return h.Park(b.Ctx, protocol.Parking{Interrupted: "drain"}) }
		}},
		{"park", "for a question", func(b *actors.Bench) func() error {
			h := stepping(b)
			_, err := h.AskFor(b.Ctx, "pay", session.Question{Name: "pay"})
			expect.OK(b, err)
			return func() error { return h.Park(b.Ctx, protocol.Parking{Question: 1, Wait: time.Hour}) }
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
			b.Redis.HSet(b.Ctx, b.Keys.Run(), "hold", "1")
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
		{"claim", "parked, and its conversation suspended", func(b *actors.Bench) func() error {
			b.Worker = actors.NewWorker(b.T, b.Redis, "impatient", func(c *protocol.Config) { c.StuckLimit = 1; c.SentinelTTL = time.Minute })
			parked(b, 0)
			h := b.Start()
			expect.OK(b, h.Park(b.Ctx, protocol.Parking{Interrupted: "drain"}))
			return claimMove(b)
		}},
		{"claim", "tidies: parked, and its messages gone", after(0, claims(func(b *actors.Bench) { b.Redis.Del(b.Ctx, b.Keys.Task(b.Task("now"))) }))},
		{"claim", "tidies: its worker died when it was to end", after(time.Hour, func(b *actors.Bench) func() error {
			expect.OK(b, b.Chat().CancelTurn(b.Ctx, "now"))
			b.EndDies()
			return claimMove(b)
		})},
		{"claim", "parked, and /new chose another agent", after(0, func(b *actors.Bench) func() error {
			h := b.Start()
			_, err := b.Chat().NewTranscript(b.Ctx, turnstile.TranscriptConfig{Agent: "support"})
			expect.OK(b, err)
			expect.OK(b, h.Park(b.Ctx, protocol.Parking{Interrupted: "drain"}))
			return claimMove(b)
		})},
		{"cancel", "of one of several messages of a parked turn", func(b *actors.Bench) func() error {
			collected(b)
			expect.OK(b, b.Start().Park(b.Ctx, protocol.Parking{Interrupted: "drain"}))
			return cancelMove(b, "one", true)
		}},
		{"rotate", "of a parked turn that asks", func(b *actors.Bench) func() error {
			waits(b)
			return func() error { _, err := b.Chat().NewTranscript(b.Ctx); return err }
		}},
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
		expect.OK(b, h.Park(b.Ctx, protocol.Parking{Interrupted: "drain"}))
	}
	return map[string]func(b *actors.Bench){
		"parked, goes on at once": func(b *actors.Bench) { parked(b, 0); immediately(b); b.Claim() },
		"parked, drained in the start": func(b *actors.Bench) {
			parked(b, 0)
			expect.OK(b, b.Claim().Park(b.Ctx, protocol.Parking{Interrupted: "drain"}))
		},
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
