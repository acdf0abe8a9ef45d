package protocol_test

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile"
	sq "turnstile/internal/protocol"
	"turnstile/pkg/resume"
	"turnstile/pkg/session"
	"turnstile/test/expect"
)

// lives are what the situations of the scripts leave out.
func lives() map[string]func(b *bench) {
	later := func(b *bench, id string) { // a delayed message that is not due
		_, err := b.client.Submit(b.ctx, key, session.Message{ID: id, Text: id}, turnstile.Delay(time.Hour))
		expect.OK(b, err)
	}
	forgetful := func(c *sq.Config) { c.Retention = 0 }
	with := func(b *bench, change setup) {
		b.c = newWorker(b.T, b.rdb, "other", change)
	}
	limit := func(b *bench, n int) {
		with(b, func(c *sq.Config) { c.StuckLimit = n })
	}
	end := func(b *bench, h *sq.Claim, e sq.End) { _, err := h.Finish(b.ctx, e); expect.OK(b, err) }
	stop := func(b *bench) { _, err := b.client.Stop(b.ctx, key); expect.OK(b, err) }
	mark := func(b *bench, h *sq.Claim) { expect.OK(b, b.c.Mark(b.ctx, []*sq.Claim{h}, "drain")[0].Err) }
	erase := func(b *bench) { expect.OK(b, b.client.Erase(b.ctx, key)) }
	rotate := func(b *bench) { _, err := b.client.Rotate(b.ctx, key, ""); expect.OK(b, err) }
	forget := func(b *bench) {
		expect.OK(b, sq.Do(b.ctx, b.rdb, "forget", sq.KeysOf(key, b.info().SessionID), nil, "age", -1).Err())
	}
	noted := func(note func(context.Context, redis.UniversalClient, string) (bool, error), then func(*bench)) func(*bench) {
		return func(b *bench) {
			with(b, forgetful)
			b.say("a")
			b.drain()
			if ok, err := note(b.ctx, b.rdb, key); !ok || err != nil {
				b.Fatalf("not noted: %v", err)
			}
			then(b)
		}
	}
	steered := func(b *bench) *sq.Claim { // a turn with a message that was steered in
		b.say("a")
		h := b.start()
		b.say("b", session.ModeSteer)
		_, err := h.Steer(b.ctx)
		expect.OK(b, err)
		return h
	}
	marked := func(ctx context.Context, rdb redis.UniversalClient, s string) (bool, error) {
		return resume.Mark(ctx, rdb, s, "")
	}

	all := map[string]func(b *bench){
		"stopped while it waits": func(b *bench) { b.say("a"); expect.OK(b, b.start().Retry(b.ctx, errors.New("x"), time.Hour)); stop(b) },
		"stopped in part": func(b *bench) {
			b.sayAll("a", "b")
			expect.OK(b, b.stopInPart())
			b.say("c")
			b.work()
		},
		"erased when ready":   func(b *bench) { b.say("a"); erase(b) },
		"erased when delayed": func(b *bench) { later(b, "a"); erase(b) },
		"erased when retried": func(b *bench) { b.say("a"); expect.OK(b, b.start().Retry(b.ctx, errors.New("x"), time.Hour)); erase(b) },
		"immediate, dies": func(b *bench) {
			with(b, func(c *sq.Config) { c.Immediate = true })
			b.say("a")
			b.renew(b.claim())
			b.die()
			b.claim()
		},
		"immediate, unheard": func(b *bench) {
			with(b, func(c *sq.Config) { c.Immediate = true })
			b.say("a")
			b.loseClaim("claim_fast")
			expect.OK(b, b.c.Unclaim(b.ctx))
		},
		"suspended, unheard": func(b *bench) {
			limit(b, 1)
			b.say("a")
			expect.OK(b, b.start().Requeue(b.ctx, "x"))
			b.loseClaim("claim")
			expect.OK(b, b.c.Unclaim(b.ctx))
		},
		"stopped, dead, later": func(b *bench) {
			b.say("a")
			b.start()
			stop(b)
			b.die()
			later(b, "b")
			b.claimNothing("it is later")
		},
		"starting, failed":  func(b *bench) { b.say("a"); expect.OK(b, b.claim().Retry(b.ctx, errors.New("x"), time.Hour)) },
		"starting, drained": func(b *bench) { b.say("a"); expect.OK(b, b.claim().Requeue(b.ctx, "x")) },
		"cut off, failed": func(b *bench) {
			b.say("a")
			h := b.start()
			mark(b, h)
			expect.OK(b, h.Retry(b.ctx, errors.New("x"), time.Hour))
		},
		"cut off, drained":       func(b *bench) { b.say("a"); h := b.start(); mark(b, h); expect.OK(b, h.Requeue(b.ctx, "x")) },
		"suspended by a mark":    func(b *bench) { limit(b, 1); b.say("a"); h := b.start(); mark(b, h); b.finish(h) },
		"suspended by a requeue": func(b *bench) { limit(b, 1); b.say("a"); expect.OK(b, b.start().Requeue(b.ctx, "x")); b.claim() },
		"suspended by a death":   func(b *bench) { limit(b, 1); b.say("a"); b.start(); b.die(); b.claimNothing("given up") },
		"again, by a mark": func(b *bench) {
			limit(b, 2)
			b.say("a")
			expect.OK(b, b.start().Requeue(b.ctx, "x"))
			mark(b, b.start())
		},
		"again, by a requeue": func(b *bench) {
			limit(b, 2)
			b.say("a")
			expect.OK(b, b.start().Requeue(b.ctx, "x"))
			expect.OK(b, b.start().Requeue(b.ctx, "x"))
		},
		"again, by a death": func(b *bench) {
			limit(b, 2)
			b.say("a")
			b.start()
			b.die()
			b.start()
			b.die()
			b.claimNothing("given up")
		},
		"again, others wait": func(b *bench) {
			limit(b, 2)
			b.sayAll("a", "b")
			b.start()
			b.die()
			b.start()
			b.die()
			b.claim()
		},
		"marked and rotated":      noted(marked, rotate),
		"marked and erased":       noted(marked, erase),
		"marked and forgotten":    noted(marked, forget),
		"suspended and rotated":   noted(resume.Suspend, rotate),
		"suspended and erased":    noted(resume.Suspend, erase),
		"suspended and forgotten": noted(resume.Suspend, forget),
		"collected and stopped": func(b *bench) {
			b.say("a")
			b.start()
			b.say("b", session.ModeCollect)
			stop(b)
		},
		"collected and dropped": func(b *bench) {
			with(b, func(c *sq.Config) { c.Line.Cap = 1; c.Line.Drop = "old" })
			b.say("a")
			b.start()
			b.say("b", session.ModeCollect)
			b.say("c")
		},
		"dropped and rotated": func(b *bench) {
			with(b, func(c *sq.Config) { c.Line.Cap = 1; c.Line.Drop = "summarize" })
			b.say("a")
			b.start()
			b.sayAll("b", "c")
			rotate(b)
		},
		"collected and erased": func(b *bench) {
			b.say("a")
			h := b.start()
			b.say("b", session.ModeCollect)
			end(b, h, sq.End{Status: session.StatusDone, Release: true})
			erase(b)
		},
		"several that cannot be read": func(b *bench) {
			b.say("a")
			h := b.start()
			b.collected("b", "c")
			b.finish(h)
			expect.OK(b, h.Dismiss(b.ctx, h.Turn().Collected[0], session.StatusFailed, "broken"))
		},
		"a steered turn is given back": func(b *bench) { expect.OK(b, steered(b).Requeue(b.ctx, "x")) },
		"a steered turn is erased":     func(b *bench) { steered(b); b.die(); erase(b) },
		"a steered turn that did not take it": func(b *bench) {
			end(b, steered(b), sq.End{Status: session.StatusDone, Untaken: []string{"b"}, Release: true})
		},
		"a collected turn dies": func(b *bench) {
			b.say("a")
			h := b.start()
			b.collected("b", "c")
			b.finish(h)
			b.die()
			b.claim()
		},
		"several are due": func(b *bench) { b.delayed("a"); b.delayed("b"); b.claim() },
		"dead letters are run again": func(b *bench) {
			b.sayAll("a", "b")
			h := b.start()
			end(b, h, sq.End{Status: session.StatusFailed, Error: "x"})
			end(b, h, sq.End{Status: session.StatusStopped, Error: "x"})
			_, err := b.client.Rerun(b.ctx, key)
			expect.OK(b, err)
		},
	}
	// What a turn in each phase may end in, and what comes behind it.
	for name, phase := range map[string]func(b *bench) *sq.Claim{
		"starting": (*bench).claim,
		"running":  (*bench).start,
		"cut off":  func(b *bench) *sq.Claim { h := b.start(); mark(b, h); return h },
	} {
		all[name+", the last"] = func(b *bench) { b.say("a"); end(b, phase(b), sq.End{Status: session.StatusExpired, Error: "x"}) }
		all[name+", released"] = func(b *bench) {
			b.sayAll("a", "b")
			end(b, phase(b), sq.End{Status: session.StatusDone, Release: true})
		}
		all[name+", a delayed one"] = func(b *bench) {
			b.say("a")
			h := phase(b)
			later(b, "b")
			end(b, h, sq.End{Status: session.StatusDone})
		}
	}
	// The ends of a turn into which a message was steered, by its owner and by the
	// claim that finds it dead.
	for status, rollback := range map[session.Status]bool{session.StatusDone: false, session.StatusFailed: false, session.StatusStopped: false, session.StatusInterrupted: true} {
		all["steered, "+string(status)] = func(b *bench) {
			end(b, steered(b), sq.End{Status: status, Error: "x", Rollback: rollback})
		}
	}
	all["steered, cut short"] = func(b *bench) { end(b, steered(b), sq.End{Status: session.StatusInterrupted}) }
	for name, asked := range map[string]func(b *bench){
		"redelivered": func(*bench) {},
		"given up":    func(b *bench) { limit(b, 1) },
		"stopped":     stop,
		"interrupted": func(b *bench) { b.say("c", session.ModeInterrupt) },
		"not kept":    func(b *bench) { b.say("c", session.ModeInterrupt); with(b, forgetful) },
		"rolled back": func(b *bench) { b.say("c", session.ModeRollback) },
	} {
		all["steered, dead, "+name] = func(b *bench) {
			expect.OK(b, steered(b).Checkpoint(b.ctx, []session.Entry{{Role: session.RoleUser, Text: "a"}}))
			asked(b)
			b.die()
			_, err := b.c.Claim(b.ctx, []string{key})
			expect.OK(b, err)
		}
	}
	all["steered, not kept"] = func(b *bench) {
		with(b, forgetful)
		b.finish(steered(b))
	}
	// Every end of a message, and how it is forgotten.
	for name, then := range map[string]func(*bench){"erased": erase, "purged": func(b *bench) {
		for _, id := range b.rdb.ZRange(b.ctx, b.k.Completed(), 0, -1).Val() {
			b.rdb.ZAdd(b.ctx, b.k.Completed(), redis.Z{Score: 1, Member: id})
		}
		expect.OK(b, sq.Do(b.ctx, b.rdb, "purge", sq.KeysOf(key, ""), nil, "batch", 100, "archive_ttl", -7200).Err())
	}, "discarded": func(b *bench) { _, err := b.client.DeleteDeadLetters(b.ctx, key); expect.OK(b, err) }} {
		all["everything, "+name] = func(b *bench) {
			with(b, func(c *sq.Config) { c.Line.Cap = 6; c.Line.Drop = "old" })
			b.sayAll("done", "dropped", "interrupted", "failed", "expired", "rolled-back", "stopped")
			h := b.start()
			b.say("dropping")
			for _, e := range []sq.End{
				{Status: session.StatusDone}, {Status: session.StatusInterrupted}, {Status: session.StatusFailed}, {Status: session.StatusExpired},
				{Status: session.StatusInterrupted, Rollback: true, Release: true},
			} {
				end(b, h, e)
			}
			stop(b)
			then(b)
		}
	}
	return all
}
