package protocol_test

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/internal/protocol"
	"turnstile/internal/protocol/deliveries"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// situation brings a session to where a script has the most to do, and returns the move that runs
// it.
type situation struct {
	script  string
	name    string
	prepare func(b *actors.Bench) (move func() error)
}

// situations are those of all moves.
func situations() []situation {
	plain := slices.Concat(sessionSituations(), claimSituations(), turnSituations(), parkedSituations(), damagedSituations())
	return slices.Concat(plain, outboxSituations(), routed(plain))
}

// routed are the situations of scripts that keep promises, with a route for each message.
func routed(plain []situation) (all []situation) {
	for _, s := range plain {
		if !slices.Contains(protocol.KeyNames(s.script), "deliveries") {
			continue
		}
		prepare := s.prepare
		s.name = strings.TrimSpace(s.name + " with a route")
		s.prepare = func(b *actors.Bench) func() error {
			expect.OK(b, b.Client.Session(actors.Key).SetReplyTo(b.Ctx, "hook"))
			return prepare(b)
		}
		all = append(all, s)
	}
	return all
}

// outboxSituations are those of deliverers.
func outboxSituations() []situation {
	known := []deliveries.Line{{Destination: "hook", MaxAge: time.Hour}}
	stored := func(b *actors.Bench) {
		expect.OK(b, b.Client.Session(actors.Key).SetReplyTo(b.Ctx, "hook"))
		b.SayAll("one", "two")
		b.Drain()
	}
	take := func(b *actors.Bench) []deliveries.Delivery {
		taken, err := deliveries.TakeLines(b.Ctx, b.Redis, actors.Key, known, time.Minute)
		expect.OK(b, err)
		return taken.Deliveries
	}
	ack := func(v deliveries.Verdict) func(b *actors.Bench) func() error {
		return func(b *actors.Bench) func() error {
			stored(b)
			d := take(b)[0]
			return func() error {
				_, _, err := deliveries.Ack{Delivery: d, Verdict: v, Wait: time.Minute, Unsure: true, Refused: true, Why: "why"}.Do(b.Ctx, b.Redis)
				return err
			}
		}
	}
	return []situation{
		{"take", "", func(b *actors.Bench) func() error {
			stored(b)
			return func() error {
				return protocol.Do(b.Ctx, b.Redis, "take", protocol.KeysOf(actors.Key, ""), nil, "token", "token", "lease", 60_000,
					"most", 32, "bytes", 4<<20, "known", []string{"hook"}, "ages", []string{"60000"}, "paused", []string{"0"}, "unknown_age", 60_000).Err()
			}
		}},
		{"take", "promises of messages that are gone", func(b *actors.Bench) func() error {
			expect.OK(b, b.Client.Session(actors.Key).SetReplyTo(b.Ctx, "hook"))
			b.SayAll("one", "two")
			expect.OK(b, b.Inspector().ArchiveTask("session:"+actors.Key, b.Task("one")))
			expect.OK(b, b.Inspector().DeleteTask("session:"+actors.Key, b.Task("two")))
			return func() error { _, err := deliveries.TakeLines(b.Ctx, b.Redis, actors.Key, nil, time.Minute); return err }
		}},
		{"take", "what is too old", func(b *actors.Bench) func() error {
			stored(b)
			b.Pass(5 * time.Millisecond)
			return func() error {
				_, err := deliveries.TakeLines(b.Ctx, b.Redis, actors.Key, []deliveries.Line{{Destination: "hook", MaxAge: time.Millisecond}}, time.Minute)
				return err
			}
		}},
		{"ack", "delivered", ack(deliveries.Delivered)},
		{"ack", "to be tried again", ack(deliveries.Again)},
		{"ack", "given up", ack(deliveries.GiveUp)},
		{"ack", "not tried", ack(deliveries.Untried)},
		{"redrive", "", func(b *actors.Bench) func() error {
			expect.OK(b, ack(deliveries.GiveUp)(b)())
			return func() error {
				_, _, err := deliveries.Redrive{Session: actors.Key, Call: "name", Most: 100}.Do(b.Ctx, b.Redis)
				return err
			}
		}},
	}
}

// sessionSituations are those of senders, operators and jobs, which do not own the session.
func sessionSituations() []situation {
	return []situation{
		{"accept", "idle", func(b *actors.Bench) func() error { return acceptMove(b, "new", "") }},
		{"accept", "queued", func(b *actors.Bench) func() error {
			b.Say("now")
			b.Start()
			return acceptMove(b, "new", "")
		}},
		{"accept", "rejected", func(b *actors.Bench) func() error {
			b.Say("now")
			b.Start()
			return acceptMove(b, "new", session.ModeReject)
		}},
		{"accept", "interrupting", func(b *actors.Bench) func() error {
			b.SayAll("now", "next")
			b.Start()
			return acceptMove(b, "new", session.ModeInterrupt)
		}},
		{"accept", "scheduled", func(b *actors.Bench) func() error {
			return func() error { return acceptWith(b, "new", "", 10_000, time.Hour, "") }
		}},
		{"accept", "no room", func(b *actors.Bench) func() error {
			b.SayAll("now", "next")
			return func() error { return acceptWith(b, "new", "", 2, 0, "") }
		}},
		{"accept", "no room for a delayed one", func(b *actors.Bench) func() error {
			b.Enqueue("now", asynq.ProcessIn(time.Hour))
			return func() error { return acceptWith(b, "new", "", 1, time.Hour, "") }
		}},
		{"trim", "", func(b *actors.Bench) func() error {
			b.Enqueue("now")
			b.Enqueue("next")
			b.Say("over")
			return trim(b, 2)
		}},
		{"trim", "delayed", func(b *actors.Bench) func() error {
			for _, id := range []string{"now", "next", "over"} {
				b.Enqueue(id, asynq.ProcessIn(time.Hour))
			}
			return trim(b, 2)
		}},
		{"decide", "", func(b *actors.Bench) func() error {
			b.Say("now")
			h := b.Start()
			b.Asks(h, "run make")
			return func() error {
				_, err := b.Client.Session(actors.Key).Decide(b.Ctx, "1", session.Always)
				return err
			}
		}},
		{"accept", "dropping the oldest", func(b *actors.Bench) func() error {
			b.Worker = actors.NewWorker(b.T, b.Redis, "small", func(c *protocol.Config) { c.Line.Cap = 1; c.Line.Drop = "summarize" })
			b.Say("now")
			b.Start()
			b.Say("old")
			return acceptMove(b, "new", "")
		}},
		{"accept", "dropping a collected one", func(b *actors.Bench) func() error {
			b.Worker = actors.NewWorker(b.T, b.Redis, "small", func(c *protocol.Config) { c.Line.Cap = 1; c.Line.Drop = "old" })
			b.Say("now")
			b.Start()
			b.SayCollected("old")
			return acceptMove(b, "new", "")
		}},
		{"accept", "collected", func(b *actors.Bench) func() error {
			b.Say("now")
			b.Start()
			return acceptMove(b, "new", session.ModeCollect)
		}},
		{"accept", "to be steered", func(b *actors.Bench) func() error {
			b.Say("now")
			b.Start()
			return acceptMove(b, "new", session.ModeSteer)
		}},
		{"once", "begun", func(b *actors.Bench) func() error {
			o := protocol.NewOnce(b.Redis, actors.Key, "id", nil, time.Minute)
			return func() error { _, _, err := o.Begin(b.Ctx); return err }
		}},
		{"once", "ended", func(b *actors.Bench) func() error {
			o := protocol.NewOnce(b.Redis, actors.Key, "id", nil, time.Minute)
			_, _, err := o.Begin(b.Ctx)
			expect.OK(b, err)
			return func() error { return o.End(b.Ctx, "result") }
		}},
		{"once", "freed", func(b *actors.Bench) func() error {
			o := protocol.NewOnce(b.Redis, actors.Key, "id", nil, time.Minute)
			_, _, err := o.Begin(b.Ctx)
			expect.OK(b, err)
			return func() error { return o.Free(b.Ctx) }
		}},
		{"title", "a user's", func(b *actors.Bench) func() error {
			return func() error { return b.Client.Session(actors.Key).SetTitle(b.Ctx, "mine") }
		}},
		{"title", "an agent's", func(b *actors.Bench) func() error {
			b.Say("now")
			h := b.Start()
			return func() error { return h.Title(b.Ctx, "its") }
		}},
		{"configure", "", func(b *actors.Bench) func() error {
			return func() error {
				return b.Client.Session(actors.Key).SetQueue(b.Ctx, session.QueueSettings{Mode: session.ModeCollect})
			}
		}},
		{"undo", "", func(b *actors.Bench) func() error {
			b.SayAll("one", "two")
			b.Drain()
			return retract(b, "", "")
		}},
		{"undo", "to try again", func(b *actors.Bench) func() error {
			b.SayAll("one", "two")
			b.Drain()
			return retract(b, b.Task("again"), "msg")
		}},
		{"rerun", "", func(b *actors.Bench) func() error {
			b.SayAll("one", "two")
			_, err := b.Client.Session(actors.Key).Stop(b.Ctx)
			expect.OK(b, err)
			var ids, arrived []string
			for _, id := range []string{"one", "two"} {
				ids, arrived = append(ids, b.Task(id)), append(arrived, b.Redis.HGet(b.Ctx, b.Keys.Task(b.Task(id)), "arrived").Val())
			}
			return func() error {
				return protocol.Do(b.Ctx, b.Redis, "rerun", protocol.KeysOf(actors.Key, ""), []string{b.Keys.Call("name")}, "by", "",
					"statuses", "failed stopped", "line_cap", 10_000, "ids", ids, "arrived", arrived).Err()
			}
		}},
		{"discard", "", func(b *actors.Bench) func() error {
			b.SayAll("one", "two")
			_, err := b.Client.Session(actors.Key).Stop(b.Ctx)
			expect.OK(b, err)
			return func() error {
				return protocol.Do(b.Ctx, b.Redis, "discard", protocol.KeysOf(actors.Key, ""), nil, "ids", []string{b.Task("one"), b.Task("two")}).Err()
			}
		}},
		{"erase", "", func(b *actors.Bench) func() error {
			b.SayAll("one", "two")
			b.Finish(b.Start())
			b.Die()
			keys := protocol.KeysOf(actors.Key, b.Info().TranscriptID)
			fence := b.Info().Fence
			b.Pass(5 * time.Millisecond) // the fencing token must not be ahead of the clock
			return func() error {
				return protocol.Do(b.Ctx, b.Redis, "erase", keys, nil, "fence", fence, "size", 500, "unused", 0, "last", true, "keep", false).Err()
			}
		}},
		{"stop", "", func(b *actors.Bench) func() error {
			b.Say("now")
			b.Start()
			b.SayAll("next", "later")
			return func() error {
				_, err := b.Client.Session(actors.Key).Stop(b.Ctx)
				return err
			}
		}},
		{"stop", "of more than a batch", func(b *actors.Bench) func() error {
			b.SayAll("now", "next", "later")
			b.Start()
			return func() error { return stopInPart(b) }
		}},
		{"cancel", "what waits", func(b *actors.Bench) func() error {
			b.Say("now")
			b.Start()
			b.SayAll("next", "later")
			return cancelMove(b, "next", false)
		}},
		{"cancel", "what is delayed", func(b *actors.Bench) func() error {
			b.SayDelayed("now")
			return cancelMove(b, "now", false)
		}},
		{"cancel", "what is retried", func(b *actors.Bench) func() error {
			b.SayAll("now", "next")
			expect.OK(b, b.Start().Park(b.Ctx, protocol.Parking{Failed: errors.New("x"), Wait: time.Hour}))
			return cancelMove(b, "now", true)
		}},
		{"cancel", "what runs", func(b *actors.Bench) func() error {
			b.SayAll("now", "next")
			b.Start()
			return cancelMove(b, "now", true)
		}},
		{"rotate", "", func(b *actors.Bench) func() error {
			b.Say("now")
			b.Start()
			return func() error {
				_, err := b.Client.Session(actors.Key).NewTranscript(b.Ctx)
				return err
			}
		}},
		{"rotate", "another agent", func(b *actors.Bench) func() error {
			b.Say("now")
			b.Start()
			return func() error {
				_, err := b.Client.Session(actors.Key).NewTranscript(b.Ctx, turnstile.TranscriptConfig{Agent: "coder"})
				return err
			}
		}},
		{"accept", "with an agent", func(b *actors.Bench) func() error {
			return func() error { return acceptWith(b, "new", "", 10_000, 0, "coder") }
		}},
		{"look", "", func(b *actors.Bench) func() error {
			b.SayAll("now", "next")
			b.Start()
			b.Die()
			return func() error {
				return protocol.Do(b.Ctx, b.Redis, "look", protocol.KeysOf(actors.Key, ""), nil).Err()
			}
		}},
		{"purge", "", func(b *actors.Bench) func() error {
			b.SayAll("good", "bad")
			h := b.Start()
			b.Finish(h)
			expect.OK(b, h.Promote(b.Ctx))
			_, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusFailed})
			expect.OK(b, err)
			b.Redis.ZAdd(b.Ctx, b.Keys.Completed(), redis.Z{Score: 1, Member: b.Task("good")})
			return func() error {
				return protocol.Do(b.Ctx, b.Redis, "purge", protocol.KeysOf(actors.Key, ""), nil, "batch", 100, "archive_ttl", -7200, "quiet", -7200000, "events_cap", 1000).Err()
			}
		}},
		{"forget", "", func(b *actors.Bench) func() error {
			b.Worker = actors.NewWorker(b.T, b.Redis, "forgetful", func(c *protocol.Config) { c.Retention = 0 })
			b.Say("now")
			b.Drain()
			keys := protocol.KeysOf(actors.Key, b.Info().TranscriptID)
			return func() error {
				return protocol.Do(b.Ctx, b.Redis, "forget", keys, nil, "age", -1).Err()
			}
		}},
	}
}
