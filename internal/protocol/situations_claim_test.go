package protocol_test

import (
	"strings"
	"time"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/wire"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// collected leaves "one" and "two" at the head of the queue, for one turn.
func collected(b *actors.Bench) {
	b.Say("now")
	h := b.Start()
	b.SayCollected("one", "two")
	_, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusDone, Release: true})
	expect.OK(b, err)
}

// claimSituations are those in which a worker begins to own the session.
func claimSituations() []situation {
	return []situation{
		{"claim", "fresh", func(b *actors.Bench) func() error {
			b.SayAll("now", "next")
			return claimMove(b)
		}},
		{"claim", "too long", func(b *actors.Bench) func() error {
			b.EnqueueTask(wire.TaskType, strings.Repeat("x", 3<<20), b.Task("now"))
			return claimMove(b)
		}},
		{"claim", "delayed", func(b *actors.Bench) func() error {
			b.SayDelayed("now")
			return claimMove(b)
		}},
		{"claim", "of a named agent", func(b *actors.Bench) func() error {
			b.Worker = actors.NewWorker(b.T, b.Redis, "named", serves("support", "support"))
			b.SayAll("now", "next")
			return claimMove(b)
		}},
		{"claim", "of an agent that nobody runs", func(b *actors.Bench) func() error {
			b.Worker = actors.NewWorker(b.T, b.Redis, "alone", serves("support", "default"), nobodyElse)
			b.Say("now")
			return claimMove(b)
		}},
		{"claim", "crashed", func(b *actors.Bench) func() error {
			b.SayAll("now", "next")
			b.Start()
			b.Die()
			return claimMove(b)
		}},
		{"claim", "crashed and the last", func(b *actors.Bench) func() error {
			b.Say("now")
			b.Start()
			b.Die()
			return claimMove(b)
		}},
		{"claim", "archived as stuck", func(b *actors.Bench) func() error {
			b.Worker = actors.NewWorker(b.T, b.Redis, "impatient", func(c *protocol.Config) { c.StuckLimit = 1; c.SentinelTTL = time.Minute })
			b.SayAll("now", "next")
			b.Start()
			b.Die()
			b.Doubt()
			return claimMove(b)
		}},
		{"claim", "in doubt", func(b *actors.Bench) func() error {
			b.Worker = actors.NewWorker(b.T, b.Redis, "impatient", func(c *protocol.Config) { c.StuckLimit = 1; c.SentinelTTL = time.Minute })
			b.SayAll("now", "next")
			b.Start()
			b.Die()
			return claimMove(b)
		}},
		{"claim", "crashed, and its owner lives", func(b *actors.Bench) func() error {
			b.SayAll("now", "next")
			h := b.Start()
			b.Die()
			expect.OK(b, h.Survive(b.Ctx))
			return claimMove(b)
		}},
		{"survive", "of a running turn", func(b *actors.Bench) func() error {
			b.Say("now")
			h := b.Start()
			return func() error { return h.Survive(b.Ctx) }
		}},
		{"survive", "of a starting turn", func(b *actors.Bench) func() error {
			b.Say("now")
			h := b.Claim()
			return func() error { return h.Survive(b.Ctx) }
		}},
		{"survive", "in doubt", func(b *actors.Bench) func() error {
			b.Worker = actors.NewWorker(b.T, b.Redis, "impatient", func(c *protocol.Config) { c.StuckLimit = 1; c.SentinelTTL = time.Minute })
			b.Say("now")
			h := b.Start()
			b.Die()
			b.ClaimNothing("its owner may live")
			return func() error { return h.Survive(b.Ctx) }
		}},
		{"survive", "", func(b *actors.Bench) func() error {
			b.SayAll("now", "next")
			h := b.Start()
			b.Die()
			return func() error { return h.Survive(b.Ctx) }
		}},
		{"survive", "after it was counted", func(b *actors.Bench) func() error {
			b.SayAll("now", "next")
			h := b.Start()
			b.Die()
			b.Claim()
			return func() error { return h.Survive(b.Ctx) }
		}},
		{"claim", "tidies: taken apart", func(b *actors.Bench) func() error {
			b.Worker = actors.NewWorker(b.T, b.Redis, "impatient", func(c *protocol.Config) { c.StuckLimit = 1; c.SentinelTTL = time.Minute })
			collected(b)
			b.Start()
			b.Die()
			b.Doubt()
			return claimMove(b)
		}},
		{"claim", "ended again", func(b *actors.Bench) func() error {
			b.SayAll("now", "next")
			b.Start()
			expect.OK(b, cancelMove(b, "now", true)())
			b.Die()
			expect.OK(b, claimMove(b)())
			b.Die()
			return claimMove(b)
		}},
		{"claim", "tidies: of what a stock server left", func(b *actors.Bench) func() error {
			b.SayAll("one", "two")
			b.Redis.LMove(b.Ctx, b.Keys.Pending(), b.Keys.Active(), "RIGHT", "LEFT")
			return claimMove(b)
		}},
		{"claim", "tidies: a turn whose record is lost", func(b *actors.Bench) func() error {
			b.SayAll("now", "next")
			stepped(b, b.Start(), 1)
			b.Die()
			b.Redis.Del(b.Ctx, b.Keys.Run())
			return claimMove(b)
		}},
		{"claim", "stopped", func(b *actors.Bench) func() error {
			b.Say("now")
			b.Start()
			_, err := b.Client.Session(actors.Key).Stop(b.Ctx)
			expect.OK(b, err)
			b.Die()
			b.Say("next")
			return claimMove(b)
		}},
		{"claim", "interrupted", func(b *actors.Bench) func() error {
			b.Say("now")
			b.Start()
			b.Say("next", session.ModeInterrupt)
			b.Die()
			return claimMove(b)
		}},
		{"unclaim", "", func(b *actors.Bench) func() error {
			b.SayAll("now", "next")
			loseClaim(b, "claim_fast")
			return func() error { return b.Worker.Unclaim(b.Ctx) }
		}},
		{"unclaim", "after a stop", func(b *actors.Bench) func() error {
			b.SayAll("now", "next")
			loseClaim(b, "claim_fast")
			_, err := b.Client.Session(actors.Key).Stop(b.Ctx)
			expect.OK(b, err)
			return func() error { return b.Worker.Unclaim(b.Ctx) }
		}},
		{"claim", "of what is gone", func(b *actors.Bench) func() error {
			b.SayAll("now", "next")
			b.Redis.Del(b.Ctx, b.Keys.Task(b.Task("now")))
			return claimMove(b)
		}},
		{"claim", "collected", func(b *actors.Bench) func() error {
			collected(b)
			return claimMove(b)
		}},
		{"claim", "rolled back", func(b *actors.Bench) func() error {
			b.Say("now")
			h := b.Start()
			expect.OK(b, actors.Checkpoint(b.Ctx, h, []session.Entry{{Role: session.RoleUser, Text: "now"}}))
			b.Say("next", session.ModeRollback)
			b.Die()
			return claimMove(b)
		}},
		{"claim", "interrupted with a journal", func(b *actors.Bench) func() error {
			b.Say("now")
			h := b.Start()
			expect.OK(b, actors.Checkpoint(b.Ctx, h, []session.Entry{{Role: session.RoleUser, Text: "now"}}))
			b.Say("next", session.ModeInterrupt)
			b.Die()
			return claimMove(b)
		}},
	}
}
