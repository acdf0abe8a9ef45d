package protocol_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/internal/chat/receipt"
	"turnstile/internal/protocol"
	"turnstile/internal/protocol/deliveries"
	"turnstile/pkg/admin"
	"turnstile/pkg/resume"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// lives are the transitions that the situations leave out.
func lives() map[string]func(b *actors.Bench) {
	later := func(b *actors.Bench, id string) { // a delayed message that is not due
		_, err := receipt.Input(b.Ctx, b.Client.Session(actors.Key), turnstile.Message{ID: id, Text: id, Delay: time.Hour})
		expect.OK(b, err)
	}
	forgetful := func(c *protocol.Config) { c.Retention = 0 }
	with := func(b *actors.Bench, change actors.Setup) {
		b.Worker = actors.NewWorker(b.T, b.Redis, "other", change)
	}
	limit := func(b *actors.Bench, n int) {
		with(b, func(c *protocol.Config) { c.StuckLimit = n })
	}
	end := func(b *actors.Bench, h *protocol.Claim, e protocol.End) {
		_, err := h.Finish(b.Ctx, e)
		expect.OK(b, err)
	}
	stop := func(b *actors.Bench) { _, err := b.Client.Session(actors.Key).Stop(b.Ctx); expect.OK(b, err) }
	mark := func(b *actors.Bench, h *protocol.Claim) {
		expect.OK(b, b.Worker.Mark(b.Ctx, []*protocol.Claim{h}, "drain")[0].Err)
	}
	erase := func(b *actors.Bench) { expect.OK(b, b.Client.Operate(actors.Key).Erase(b.Ctx)) }
	rotate := func(b *actors.Bench) {
		_, err := b.Client.Session(actors.Key).NewTranscript(b.Ctx)
		expect.OK(b, err)
	}
	forget := func(b *actors.Bench) {
		expect.OK(b, protocol.Do(b.Ctx, b.Redis, "forget", protocol.KeysOf(actors.Key, b.Info().TranscriptID), nil, "age", -1).Err())
	}
	noted := func(note func(context.Context, redis.UniversalClient, string) (bool, error), then func(*actors.Bench)) func(*actors.Bench) {
		return func(b *actors.Bench) {
			with(b, forgetful)
			b.Say("a")
			b.Drain()
			if ok, err := note(b.Ctx, b.Redis, actors.Key); !ok || err != nil {
				b.Fatalf("not noted: %v", err)
			}
			then(b)
		}
	}
	steered := func(b *actors.Bench) *protocol.Claim { // a turn with a message that was steered in
		b.Say("a")
		h := b.Start()
		b.Say("b", session.ModeSteer)
		_, err := h.Steer(b.Ctx)
		expect.OK(b, err)
		return h
	}
	marked := func(ctx context.Context, rdb redis.UniversalClient, s string) (bool, error) {
		return resume.Mark(ctx, rdb, s, "")
	}
	unwritten := func(ends func(b *actors.Bench)) func(b *actors.Bench) { // the worker dies that is to end the turn
		return func(b *actors.Bench) {
			h := steered(b)
			stepped(b, h, 1)
			expect.OK(b, h.Park(b.Ctx, protocol.Parking{Failed: errors.New("x")}))
			ends(b)
			b.EndDies()
			b.Drain()
		}
	}

	all := map[string]func(b *actors.Bench){
		"an end that died, stopped":     unwritten(stop),
		"an end that died, interrupted": unwritten(func(b *actors.Bench) { b.Say("c", session.ModeInterrupt) }),
		"an end that died, rolled back": unwritten(func(b *actors.Bench) { b.Say("c", session.ModeRollback) }),
		"an end that died, given up": unwritten(func(b *actors.Bench) {
			limit(b, 1)
			b.Renew(b.Start())
			b.Die()
			b.Doubt()
		}),
		"stopped while it waits": func(b *actors.Bench) {
			b.Say("a")
			expect.OK(b, b.Start().Park(b.Ctx, protocol.Parking{Failed: errors.New("x"), Wait: time.Hour}))
			stop(b)
		},
		"cancelled when delayed": func(b *actors.Bench) { later(b, "a"); expect.OK(b, cancelMove(b, "a", false)()) },
		"cancelled when collected": func(b *actors.Bench) {
			b.Say("now")
			b.Start()
			b.SayCollected("a", "b")
			expect.OK(b, cancelMove(b, "a", false)())
		},
		"cancelled when ready": func(b *actors.Bench) { b.Say("a"); expect.OK(b, cancelMove(b, "a", false)()) },
		"stopped in part": func(b *actors.Bench) {
			b.SayAll("a", "b")
			expect.OK(b, stopInPart(b))
			b.Say("c")
			b.Work()
		},
		"searched for promises in part": func(b *actors.Bench) {
			for i := range 1000 { // more than one step of a scan
				b.Redis.HSet(b.Ctx, b.Keys.Owed(), fmt.Sprint("gone", i), "hook - ")
			}
			store(b, "hook0000", time.Now().UnixMilli(), 100, 10) // more than a call returns
			store(b, "hook0001", time.Now().UnixMilli()+200, 1, 10)
			_, err := deliveries.TakeLines(b.Ctx, b.Redis, actors.Key, hooks(2), time.Minute)
			expect.OK(b, err)
		},
		"ends too late for its destination": func(b *actors.Bench) {
			sendBy(b, "a", "1h")
			b.Drain()
		},
		"erased when ready":   func(b *actors.Bench) { b.Say("a"); erase(b) },
		"erased when delayed": func(b *actors.Bench) { later(b, "a"); erase(b) },
		"erased when retried": func(b *actors.Bench) {
			b.Say("a")
			expect.OK(b, b.Start().Park(b.Ctx, protocol.Parking{Failed: errors.New("x"), Wait: time.Hour}))
			erase(b)
		},
		"starting, dies": func(b *actors.Bench) { b.Say("a"); b.Renew(b.Claim()); b.Die(); b.Claim() },
		"immediate, dies": func(b *actors.Bench) {
			with(b, func(c *protocol.Config) { c.Immediate = true })
			b.Say("a")
			b.Renew(b.Claim())
			b.Die()
			b.Claim()
		},
		"immediate, reply lost": func(b *actors.Bench) {
			with(b, func(c *protocol.Config) { c.Immediate = true })
			b.Say("a")
			loseClaim(b, "claim_fast")
			expect.OK(b, b.Worker.Unclaim(b.Ctx))
		},
		"suspended, reply lost": func(b *actors.Bench) {
			limit(b, 1)
			b.Say("a")
			expect.OK(b, b.Start().Park(b.Ctx, protocol.Parking{Interrupted: "x"}))
			loseClaim(b, "claim")
			expect.OK(b, b.Worker.Unclaim(b.Ctx))
		},
		"stopped, dead, later": func(b *actors.Bench) {
			b.Say("a")
			b.Start()
			stop(b)
			b.Die()
			later(b, "b")
			b.ClaimNothing("it is later")
		},
		"starting, failed": func(b *actors.Bench) {
			b.Say("a")
			expect.OK(b, b.Claim().Park(b.Ctx, protocol.Parking{Failed: errors.New("x"), Wait: time.Hour}))
		},
		"starting, drained": func(b *actors.Bench) {
			b.Say("a")
			expect.OK(b, b.Claim().Park(b.Ctx, protocol.Parking{Interrupted: "x"}))
		},
		"interrupted, failed": func(b *actors.Bench) {
			b.Say("a")
			h := b.Start()
			mark(b, h)
			expect.OK(b, h.Park(b.Ctx, protocol.Parking{Failed: errors.New("x"), Wait: time.Hour}))
		},
		"interrupted, drained": func(b *actors.Bench) {
			b.Say("a")
			h := b.Start()
			mark(b, h)
			expect.OK(b, h.Park(b.Ctx, protocol.Parking{Interrupted: "x"}))
		},
		"suspended by a mark": func(b *actors.Bench) { limit(b, 1); b.Say("a"); h := b.Start(); mark(b, h); b.Finish(h) },
		"suspended by a requeue": func(b *actors.Bench) {
			limit(b, 1)
			b.Say("a")
			expect.OK(b, b.Start().Park(b.Ctx, protocol.Parking{Interrupted: "x"}))
			b.Claim()
		},
		"suspended by a death": func(b *actors.Bench) {
			limit(b, 1)
			b.Say("a")
			b.Start()
			b.Die()
			b.Doubt()
			b.ClaimNothing("archived as stuck")
		},
		"again, by a mark": func(b *actors.Bench) {
			limit(b, 2)
			b.Say("a")
			expect.OK(b, b.Start().Park(b.Ctx, protocol.Parking{Interrupted: "x"}))
			mark(b, b.Start())
		},
		"again, by a requeue": func(b *actors.Bench) {
			limit(b, 2)
			b.Say("a")
			expect.OK(b, b.Start().Park(b.Ctx, protocol.Parking{Interrupted: "x"}))
			expect.OK(b, b.Start().Park(b.Ctx, protocol.Parking{Interrupted: "x"}))
		},
		"again, by a death": func(b *actors.Bench) {
			limit(b, 2)
			b.Say("a")
			b.Start()
			b.Die()
			b.Start()
			b.Die()
			b.Doubt()
			b.ClaimNothing("archived as stuck")
		},
		"again, others wait": func(b *actors.Bench) {
			limit(b, 2)
			b.SayAll("a", "b")
			b.Start()
			b.Die()
			b.Start()
			b.Die()
			b.Doubt()
			b.Claim()
		},
		"marked and rotated":      noted(marked, rotate),
		"marked and erased":       noted(marked, erase),
		"marked and forgotten":    noted(marked, forget),
		"suspended and rotated":   noted(resume.Suspend, rotate),
		"suspended and erased":    noted(resume.Suspend, erase),
		"suspended and forgotten": noted(resume.Suspend, forget),
		"collected and stopped": func(b *actors.Bench) {
			b.Say("a")
			b.Start()
			b.Say("b", session.ModeCollect)
			stop(b)
		},
		"collected and dropped": func(b *actors.Bench) {
			with(b, func(c *protocol.Config) { c.Line.Cap = 1; c.Line.Drop = "old" })
			b.Say("a")
			b.Start()
			b.Say("b", session.ModeCollect)
			b.Say("c")
		},
		"dropped and rotated": func(b *actors.Bench) {
			with(b, func(c *protocol.Config) { c.Line.Cap = 1; c.Line.Drop = "summarize" })
			b.Say("a")
			b.Start()
			b.SayAll("b", "c")
			rotate(b)
		},
		"collected and erased": func(b *actors.Bench) {
			b.Say("a")
			h := b.Start()
			b.Say("b", session.ModeCollect)
			end(b, h, protocol.End{Status: session.StatusDone, Release: true})
			erase(b)
		},
		"several that cannot be read": func(b *actors.Bench) {
			b.Say("a")
			h := b.Start()
			b.SayCollected("b", "c")
			b.Finish(h)
			expect.OK(b, h.Dismiss(b.Ctx, h.Turn().Collected[0], protocol.End{Status: session.StatusFailed, Error: "broken"}))
		},
		"a steered turn is given back": func(b *actors.Bench) { expect.OK(b, steered(b).Park(b.Ctx, protocol.Parking{Interrupted: "x"})) },
		"a steered turn is erased":     func(b *actors.Bench) { steered(b); b.Die(); erase(b) },
		"a steered turn that did not take it": func(b *actors.Bench) {
			end(b, steered(b), protocol.End{Status: session.StatusDone, Untaken: []string{"b"}, Release: true})
		},
		"a collected turn dies": func(b *actors.Bench) {
			b.Say("a")
			h := b.Start()
			b.SayCollected("b", "c")
			b.Finish(h)
			b.Die()
			b.Claim()
		},
		"several are due": func(b *actors.Bench) { b.SayDelayed("a"); b.SayDelayed("b"); b.Claim() },
		"dead letters are run again": func(b *actors.Bench) {
			b.SayAll("a", "b")
			h := b.Start()
			end(b, h, protocol.End{Status: session.StatusFailed, Error: "x"})
			end(b, h, protocol.End{Status: session.StatusStopped, Error: "x"})
			_, err := b.Client.Operate(actors.Key).Rerun(b.Ctx, admin.All)
			expect.OK(b, err)
		},
	}
	// How a turn in each phase may end, and the state after it.
	for name, phase := range map[string]func(b *actors.Bench) *protocol.Claim{
		"starting":    (*actors.Bench).Claim,
		"running":     (*actors.Bench).Start,
		"interrupted": func(b *actors.Bench) *protocol.Claim { h := b.Start(); mark(b, h); return h },
	} {
		all[name+", the last"] = func(b *actors.Bench) {
			b.Say("a")
			end(b, phase(b), protocol.End{Status: session.StatusExpired, Error: "x"})
		}
		all[name+", released"] = func(b *actors.Bench) {
			b.SayAll("a", "b")
			end(b, phase(b), protocol.End{Status: session.StatusDone, Release: true})
		}
		all[name+", a delayed one"] = func(b *actors.Bench) {
			b.Say("a")
			h := phase(b)
			later(b, "b")
			end(b, h, protocol.End{Status: session.StatusDone})
		}
	}
	// How a turn with a steered message ends, by its owner and by the claim that finds it dead.
	for status, rollback := range map[session.Status]bool{session.StatusDone: false, session.StatusFailed: false, session.StatusStopped: false, session.StatusInterrupted: true} {
		all["steered, "+string(status)] = func(b *actors.Bench) {
			end(b, steered(b), protocol.End{Status: status, Error: "x", Rollback: rollback})
		}
	}
	all["steered, cut short"] = func(b *actors.Bench) { end(b, steered(b), protocol.End{Status: session.StatusInterrupted}) }
	for name, asked := range map[string]func(b *actors.Bench){
		"redelivered":       func(*actors.Bench) {},
		"archived as stuck": func(b *actors.Bench) { limit(b, 1) },
		"stopped":           stop,
		"interrupted":       func(b *actors.Bench) { b.Say("c", session.ModeInterrupt) },
		"not kept":          func(b *actors.Bench) { b.Say("c", session.ModeInterrupt); with(b, forgetful) },
		"rolled back":       func(b *actors.Bench) { b.Say("c", session.ModeRollback) },
	} {
		all["steered, dead, "+name] = func(b *actors.Bench) {
			expect.OK(b, actors.Checkpoint(b.Ctx, steered(b), []session.Entry{{Role: session.RoleUser, Text: "a"}}))
			asked(b)
			b.Die()
			if name == "archived as stuck" {
				b.Doubt()
			}
			_, err := b.Worker.Claim(b.Ctx, []string{actors.Key})
			expect.OK(b, err)
		}
	}
	all["steered, not kept"] = func(b *actors.Bench) {
		with(b, forgetful)
		b.Finish(steered(b))
	}
	// Every end of a message, and how it is forgotten.
	for name, then := range map[string]func(*actors.Bench){"erased": erase, "purged": func(b *actors.Bench) {
		for _, id := range b.Redis.ZRange(b.Ctx, b.Keys.Completed(), 0, -1).Val() {
			b.Redis.ZAdd(b.Ctx, b.Keys.Completed(), redis.Z{Score: 1, Member: id})
		}
		expect.OK(b, protocol.Do(b.Ctx, b.Redis, "purge", protocol.KeysOf(actors.Key, ""), nil, "batch", 100, "archive_ttl", -7200, "quiet", 0, "events_cap", 1000).Err())
	}, "discarded": func(b *actors.Bench) {
		_, err := b.Client.Operate(actors.Key).DeleteDeadLetters(b.Ctx, admin.All)
		expect.OK(b, err)
		for _, id := range b.Redis.ZRange(b.Ctx, b.Keys.Completed(), 0, -1).Val() {
			there, err := protocol.DiscardResult(b.Ctx, b.Redis, actors.Key, id)
			expect.OK(b, err)
			expect.Equal(b, "the result is kept", there, true)
		}
	}} {
		all["everything, "+name] = func(b *actors.Bench) {
			with(b, func(c *protocol.Config) { c.Line.Cap = 6; c.Line.Drop = "old" })
			b.SayAll("done", "dropped", "interrupted", "failed", "expired", "rolled-back", "stopped")
			h := b.Start()
			b.Say("dropping")
			for _, e := range []protocol.End{
				{Status: session.StatusDone}, {Status: session.StatusInterrupted}, {Status: session.StatusFailed}, {Status: session.StatusExpired},
				{Status: session.StatusInterrupted, Rollback: true, Release: true},
			} {
				end(b, h, e)
			}
			stop(b)
			then(b)
		}
	}
	maps.Copy(all, parkedLives())
	return all
}
