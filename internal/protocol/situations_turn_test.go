package protocol_test

import (
	"errors"
	"strings"
	"time"

	"turnstile/internal/protocol"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// turnSituations are those of the owner of a running turn.
func turnSituations() []situation {
	return []situation{
		{"promote", "", func(b *actors.Bench) func() error {
			b.SayAll("now", "next")
			h := b.Claim()
			return func() error { return h.Promote(b.Ctx) }
		}},
		{"renew", "", func(b *actors.Bench) func() error {
			b.SayAll("now", "next")
			h := b.Start()
			return func() error { return b.Worker.Renew(b.Ctx, []*protocol.Claim{h})[0].Err }
		}},
		{"emit", "", func(b *actors.Bench) func() error {
			b.Say("now")
			h := b.Start()
			return func() error { return h.Emit(b.Ctx, []session.Event{{Type: session.EventNotice, Text: "hi"}}) }
		}},
		{"emit", "longer than the stream may be", func(b *actors.Bench) func() error {
			b.Worker = actors.NewWorker(b.T, b.Redis, "brief", func(c *protocol.Config) { c.EventsBytes = 10_000 })
			b.Say("now")
			h := b.Start()
			long := []session.Event{{Type: session.EventNotice, Text: strings.Repeat("x", 11_000)}}
			expect.OK(b, h.Emit(b.Ctx, long))
			return func() error { return h.Emit(b.Ctx, long) }
		}},
		{"finish", "with a next", func(b *actors.Bench) func() error {
			b.Say("now")
			h := b.Start()
			b.Say("next")
			b.SayDelayed("later")
			return finishMove(b, h, session.StatusDone, false)
		}},
		{"finish", "with a next for the fast path", func(b *actors.Bench) func() error {
			b.SayAll("now", "next")
			return finishMove(b, b.Start(), session.StatusDone, false)
		}},
		{"finish", "with a next for the full path", func(b *actors.Bench) func() error {
			b.SayAll("now", "next")
			h := b.Start()
			b.Redis.HSet(b.Ctx, b.Keys.Task(b.Task("next")), "quiet", "1 100")
			return finishMove(b, h, session.StatusDone, false)
		}},
		{"finish", "with a next that is gone", func(b *actors.Bench) func() error {
			b.SayAll("now", "next")
			h := b.Start()
			b.Redis.Del(b.Ctx, b.Keys.Task(b.Task("next")))
			return finishMove(b, h, session.StatusDone, false)
		}},
		{"finish", "with a delayed next", func(b *actors.Bench) func() error {
			b.Say("now")
			h := b.Start()
			b.SayDelayed("next")
			return finishMove(b, h, session.StatusDone, false)
		}},
		{"finish", "the last", func(b *actors.Bench) func() error {
			b.Say("now")
			return finishMove(b, b.Start(), session.StatusDone, false)
		}},
		{"finish", "released", func(b *actors.Bench) func() error {
			b.SayAll("now", "next")
			h := b.Start()
			b.SayDelayed("later")
			return finishMove(b, h, session.StatusDone, true)
		}},
		{"finish", "failed", func(b *actors.Bench) func() error {
			b.SayAll("now", "next")
			return finishMove(b, b.Start(), session.StatusFailed, false)
		}},
		{"park", "drained", func(b *actors.Bench) func() error {
			b.SayAll("now", "next")
			h := b.Start()
			return func() error { return h.Park(b.Ctx, protocol.Parking{Interrupted: "drain"}) }
		}},
		{"park", "failed", func(b *actors.Bench) func() error {
			b.Say("now")
			h := b.Start()
			return func() error { return h.Park(b.Ctx, protocol.Parking{Failed: errors.New("no"), Wait: time.Hour}) }
		}},
		{"park", "throttled", func(b *actors.Bench) func() error {
			b.Say("now")
			h := b.Start()
			return func() error { return h.Park(b.Ctx, protocol.Parking{Throttled: true, Wait: time.Hour}) }
		}},
		{"park", "interrupted", func(b *actors.Bench) func() error {
			b.SayAll("now", "next")
			h := b.Start()
			expect.OK(b, actors.Checkpoint(b.Ctx, h, []session.Entry{{Role: session.RoleUser, Text: "now"}}))
			return func() error { return h.Park(b.Ctx, protocol.Parking{Interrupted: "drain"}) }
		}},
		{"mark", "", func(b *actors.Bench) func() error {
			b.Say("now")
			h := b.Start()
			return func() error { return b.Worker.Mark(b.Ctx, []*protocol.Claim{h}, "drain")[0].Err }
		}},
		{"mark", "starting", func(b *actors.Bench) func() error {
			b.Say("now")
			h := b.Claim()
			return func() error { return b.Worker.Mark(b.Ctx, []*protocol.Claim{h}, "drain")[0].Err }
		}},
		{"journal", "", func(b *actors.Bench) func() error {
			b.Say("now")
			h := b.Start()
			return func() error {
				return actors.Checkpoint(b.Ctx, h, []session.Entry{{Role: session.RoleUser, Text: "now"}})
			}
		}},
		{"journal", "with a step", func(b *actors.Bench) func() error {
			b.Say("now")
			h := b.Start()
			return func() error {
				_, err := h.Journal(b.Ctx, protocol.JournalWrite{
					Entries: map[int]session.Entry{0: {Role: session.RoleUser, Text: "now"}}, Count: 1, HasSteps: true, Closed: 1, Progress: true,
					Usage: &session.Usage{InputTokens: 1}, Messages: []string{"now"}, Steps: map[string]string{"charge": `{"state":"ended"}`},
					Keeps: 1, Events: []session.Event{{Type: session.EventText, Turn: h.Turn().ID, Text: "paid"}},
				})
				return err
			}
		}},
		{"store_state", "", func(b *actors.Bench) func() error {
			b.Say("now")
			h := b.Start()
			return func() error { return h.StoreState(b.Ctx, []byte(`{"agent":"test"}`), 2) }
		}},
		{"store_state", "nothing", func(b *actors.Bench) func() error {
			b.Say("now")
			h := b.Start()
			expect.OK(b, h.StoreState(b.Ctx, []byte(`1`), 0))
			return func() error { return h.StoreState(b.Ctx, nil, 0) }
		}},
		{"ask", "", func(b *actors.Bench) func() error {
			b.Say("now")
			h := b.Start()
			return func() error {
				_, err := h.Ask(b.Ctx, session.Question{Name: "run make"})
				return err
			}
		}},
		{"ask", "no more", func(b *actors.Bench) func() error {
			b.Say("now")
			h := b.Start()
			b.Asks(h, "run make")
			return func() error {
				_, err := h.Withdraw(b.Ctx)
				return err
			}
		}},
		{"steer", "", func(b *actors.Bench) func() error {
			b.Say("now")
			h := b.Start()
			b.Say("queued")
			b.Say("one", session.ModeSteer)
			b.Say("two", session.ModeSteer)
			return func() error {
				_, err := h.Steer(b.Ctx)
				return err
			}
		}},
		{"finish", "failed, with an untaken steer", func(b *actors.Bench) func() error {
			b.Say("now")
			h := b.Start()
			b.Say("taken", session.ModeSteer)
			b.Say("untaken", session.ModeSteer)
			_, err := h.Steer(b.Ctx)
			expect.OK(b, err)
			return func() error {
				_, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusDone, Untaken: []string{"untaken"}, Entries: []session.Entry{{Role: session.RoleUser, Text: "t"}}})
				return err
			}
		}},
		{"finish", "failed, with an untaken steer, after a stop", func(b *actors.Bench) func() error {
			b.Say("now")
			h := b.Start()
			b.Say("taken", session.ModeSteer)
			b.Say("untaken", session.ModeSteer)
			_, err := h.Steer(b.Ctx)
			expect.OK(b, err)
			_, err = b.Client.Session(actors.Key).Stop(b.Ctx)
			expect.OK(b, err)
			b.Say("next")
			return func() error {
				_, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusDone, Untaken: []string{"untaken"}, Entries: []session.Entry{{Role: session.RoleUser, Text: "t"}}})
				return err
			}
		}},
		{"finish", "with collected ones next", func(b *actors.Bench) func() error {
			b.Say("now")
			h := b.Start()
			b.SayCollected("one", "two")
			return finishMove(b, h, session.StatusDone, false)
		}},
		{"dismiss", "", func(b *actors.Bench) func() error {
			b.Say("now")
			h := b.Start()
			b.SayCollected("one", "two")
			b.Finish(h)
			expect.OK(b, h.Promote(b.Ctx))
			return func() error {
				return h.Dismiss(b.Ctx, h.Turn().Collected[0], protocol.End{Status: session.StatusExpired, Error: "too old"})
			}
		}},
	}
}
