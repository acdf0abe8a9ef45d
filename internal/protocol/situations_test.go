package protocol_test

import (
	"slices"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
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
	return slices.Concat(sessionSituations(), claimSituations(), turnSituations())
}

// sessionSituations are those of senders, operators and jobs, which do not own the session.
func sessionSituations() []situation {
	return []situation{
		{"notify", "idle", func(b *actors.Bench) func() error { return notifyMove(b, "new", "") }},
		{"notify", "queued", func(b *actors.Bench) func() error {
			b.Say("now")
			b.Start()
			return notifyMove(b, "new", "")
		}},
		{"notify", "rejected", func(b *actors.Bench) func() error {
			b.Say("now")
			b.Start()
			return notifyMove(b, "new", session.ModeReject)
		}},
		{"notify", "interrupting", func(b *actors.Bench) func() error {
			b.SayAll("now", "next")
			b.Start()
			return notifyMove(b, "new", session.ModeInterrupt)
		}},
		{"notify", "scheduled", func(b *actors.Bench) func() error {
			b.Enqueue("new", asynq.ProcessIn(time.Hour))
			return func() error { return notify(b, "new", "") }
		}},
		{"notify", "no room", func(b *actors.Bench) func() error {
			b.SayAll("now", "next")
			b.Enqueue("new")
			return func() error { return notifyWithCap(b, "new", "", 2) }
		}},
		{"notify", "no room for a delayed one", func(b *actors.Bench) func() error {
			b.Enqueue("now", asynq.ProcessIn(time.Hour))
			b.Enqueue("new", asynq.ProcessIn(time.Hour))
			return func() error { return notifyWithCap(b, "new", "", 1) }
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
				_, err := b.Client.Decide(b.Ctx, actors.Key, 1, session.Always)
				return err
			}
		}},
		{"notify", "dropping the oldest", func(b *actors.Bench) func() error {
			b.Worker = actors.NewWorker(b.T, b.Redis, "small", func(c *protocol.Config) { c.Line.Cap = 1; c.Line.Drop = "summarize" })
			b.Say("now")
			b.Start()
			b.Say("old")
			return notifyMove(b, "new", "")
		}},
		{"notify", "collected", func(b *actors.Bench) func() error {
			b.Say("now")
			b.Start()
			return notifyMove(b, "new", session.ModeCollect)
		}},
		{"notify", "to be steered", func(b *actors.Bench) func() error {
			b.Say("now")
			b.Start()
			return notifyMove(b, "new", session.ModeSteer)
		}},
		{"title", "a user's", func(b *actors.Bench) func() error {
			return func() error { return b.Client.SetTitle(b.Ctx, actors.Key, "mine") }
		}},
		{"title", "an agent's", func(b *actors.Bench) func() error {
			b.Say("now")
			h := b.Start()
			return func() error { return h.Title(b.Ctx, "its") }
		}},
		{"configure", "", func(b *actors.Bench) func() error {
			return func() error {
				return b.Client.Configure(b.Ctx, actors.Key, session.QueueSettings{Mode: session.ModeCollect})
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
			_, err := b.Client.Stop(b.Ctx, actors.Key)
			expect.OK(b, err)
			var ids, arrived []string
			for _, id := range []string{"one", "two"} {
				ids, arrived = append(ids, b.Task(id)), append(arrived, b.Redis.HGet(b.Ctx, b.Keys.Task(b.Task(id)), "arrived").Val())
			}
			return func() error {
				return protocol.Do(b.Ctx, b.Redis, "rerun", protocol.KeysOf(actors.Key, ""), []string{b.Keys.Call("name")},
					"statuses", "failed stopped", "line_cap", 10_000, "ids", ids, "arrived", arrived).Err()
			}
		}},
		{"discard", "", func(b *actors.Bench) func() error {
			b.SayAll("one", "two")
			_, err := b.Client.Stop(b.Ctx, actors.Key)
			expect.OK(b, err)
			return func() error {
				return protocol.Do(b.Ctx, b.Redis, "discard", protocol.KeysOf(actors.Key, ""), nil, "ids", []string{b.Task("one"), b.Task("two")}).Err()
			}
		}},
		{"erase", "", func(b *actors.Bench) func() error {
			b.SayAll("one", "two")
			b.Finish(b.Start())
			b.Die()
			keys := protocol.KeysOf(actors.Key, b.Info().SessionID)
			fence := b.Info().Fence
			b.Pass(5 * time.Millisecond) // the fencing token must not be ahead of the clock
			return func() error {
				return protocol.Do(b.Ctx, b.Redis, "erase", keys, nil, "fence", fence, "size", 500, "last", true).Err()
			}
		}},
		{"stop", "", func(b *actors.Bench) func() error {
			b.Say("now")
			b.Start()
			b.SayAll("next", "later")
			return func() error {
				_, err := b.Client.Stop(b.Ctx, actors.Key)
				return err
			}
		}},
		{"stop", "of more than a batch", func(b *actors.Bench) func() error {
			b.SayAll("now", "next", "later")
			b.Start()
			return func() error { return stopInPart(b) }
		}},
		{"rotate", "", func(b *actors.Bench) func() error {
			b.Say("now")
			b.Start()
			return func() error {
				_, err := b.Client.Rotate(b.Ctx, actors.Key, "")
				return err
			}
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
				return protocol.Do(b.Ctx, b.Redis, "purge", protocol.KeysOf(actors.Key, ""), nil, "batch", 100, "archive_ttl", -7200).Err()
			}
		}},
		{"forget", "", func(b *actors.Bench) func() error {
			b.Worker = actors.NewWorker(b.T, b.Redis, "forgetful", func(c *protocol.Config) { c.Retention = 0 })
			b.Say("now")
			b.Drain()
			keys := protocol.KeysOf(actors.Key, b.Info().SessionID)
			return func() error {
				return protocol.Do(b.Ctx, b.Redis, "forget", keys, nil, "age", -1).Err()
			}
		}},
	}
}
