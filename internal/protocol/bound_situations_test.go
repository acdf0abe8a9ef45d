package protocol_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/internal/chat/receipt"
	"turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/admin"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// size is the size of a situation, in two measurements.
type size struct{ small, large int }

var (
	lines = size{500, manyLines()} // messages, tasks, entries
	texts = size{5, 20}            // of 1 MiB
	turns = size{250, 499}         // messages of one turn after the first: no script makes a larger turn
	parts = size{15, 60}           // of 256 KiB; the first size is still taken up
)

// manyLines is twenty times the smaller measurement, and a hundred times in a proof.
func manyLines() int {
	if expect.Proof() {
		return 50_000
	}
	return 10_000
}

// wide is a situation with n of something.
type wide struct {
	name    string // script and situation
	size    size
	prepare func(b *actors.Bench, f *filler, n int) (move func() error)
}

// wideSituations have much of one thing. Those of situations() run with much of everything.
func wideSituations() []wide {
	dropping := func(drop string, kind string) func(*actors.Bench, *filler, int) func() error {
		return func(b *actors.Bench, f *filler, n int) func() error {
			b.Say("now")
			b.Start()
			expect.OK(b, b.Client.Session(actors.Key).SetQueue(b.Ctx, session.QueueSettings{Cap: 5, Drop: session.DropPolicy(drop)}))
			move := acceptMove(b, "new", "")
			f.line(kind, n)
			return move
		}
	}
	withNote := func(prepare func(b *actors.Bench) func() error) func(*actors.Bench, *filler, int) func() error {
		return func(b *actors.Bench, f *filler, n int) func() error {
			f.note(n)
			return prepare(b)
		}
	}
	return []wide{
		{"accept/drops the oldest of a long line", lines, dropping("old", lineTask)},
		{"accept/drops the oldest of large texts", size{10, 40}, dropping("old", "L")},
		{"accept/summarizes a long line", lines, dropping("summarize", lineTask)},
		{"accept/refuses behind a long line", lines, dropping("new", lineTask)},
		{"accept/summarizes with a long note", lines, withNote(func(b *actors.Bench) func() error {
			expect.OK(b, b.Client.Session(actors.Key).SetQueue(b.Ctx, session.QueueSettings{Cap: 1, Drop: "summarize"}))
			b.Say("now")
			b.Start()
			b.Say("old")
			return acceptMove(b, "new", "")
		})},
		{"accept/again, of the oldest", lines, func(b *actors.Bench, f *filler, n int) func() error {
			b.Say("now")
			b.Start()
			b.Say("old")
			f.line(lineTask, n)
			return func() error { return accept(b, "old", "") }
		}},
		{"accept/refuses and has refused many", lines, func(b *actors.Bench, f *filler, n int) func() error {
			b.Say("now")
			b.Start()
			b.Say("next")
			for i := range 65 {
				b.Redis.HSet(b.Ctx, b.Keys.Followups(), fmt.Sprint("refused", i), `{"refused":"busy","nonce":"n","cap":1}`)
			}
			f.line(lineTask, n)
			return acceptMove(b, "new", session.ModeReject)
		}},
		{"claim/with a long note", lines, withNote(func(b *actors.Bench) func() error { b.Say("now"); return claimMove(b) })},
		{"claim/with a long note, full path", lines, withNote(func(b *actors.Bench) func() error { b.SayDelayed("now"); return claimMove(b) })},
		{"finish/with a long note", lines, func(b *actors.Bench, f *filler, n int) func() error {
			f.note(n)
			b.Say("now")
			h := b.Start()
			return func() error {
				_, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusDone, Told: n / 2})
				return err
			}
		}},
		{"steer/many", lines, steering(steerTask)},
		{"steer/large texts", texts, steering("S")},
		{"steer/one of many large texts", texts, func(b *actors.Bench, f *filler, n int) func() error {
			b.Say("now")
			h := b.Start()
			b.Say("one", session.ModeSteer)
			f.line("L", n)
			return func() error { _, err := h.Steer(b.Ctx); return err }
		}},
		{"claim/many collected", size{500, 10_000}, collecting(collectTask)},
		{"claim/large texts collected", texts, collecting("Q")},
		{"finish/many collected next", size{500, 10_000}, func(b *actors.Bench, f *filler, n int) func() error {
			b.Say("now")
			h := b.Start()
			f.line(collectTask, n)
			return finishMove(b, h, session.StatusDone, false)
		}},
		{"claim/ids without tasks", lines, func(b *actors.Bench, f *filler, n int) func() error {
			b.Say("now")
			f.put(f.template("list", "g", n, 0, f.idPrefix), b.Keys.Pending())
			b.Redis.LPush(b.Ctx, b.Keys.Pending(), b.Task("now"))
			b.Redis.RPop(b.Ctx, b.Keys.Pending())
			return claimMove(b)
		}},
		{"finish/ids without tasks next", lines, func(b *actors.Bench, f *filler, n int) func() error {
			b.Say("now")
			h := b.Start()
			f.put(f.template("list", "g", n, 0, f.idPrefix), b.Keys.Pending())
			return finishMove(b, h, session.StatusDone, false)
		}},
		{"claim/many due", lines, func(b *actors.Bench, f *filler, n int) func() error {
			b.SayDelayed("now")
			f.due(n)
			return claimMove(b)
		}},
		{"finish/many due", lines, func(b *actors.Bench, f *filler, n int) func() error {
			b.Say("now")
			h := b.Start()
			b.SayDelayed("later")
			f.due(n)
			return finishMove(b, h, session.StatusDone, false)
		}},

		{"claim/of a dead turn of many messages", turns, withActive(func(b *actors.Bench, _ *protocol.Claim) func() error { b.Die(); return claimMove(b) })},
		{"look/at a dead turn of many messages", turns, withActive(func(b *actors.Bench, _ *protocol.Claim) func() error {
			b.Die()
			return func() error {
				return protocol.Do(b.Ctx, b.Redis, "look", protocol.KeysOf(actors.Key, ""), nil).Err()
			}
		})},
		{"renew/a turn of many messages", turns, withActive(func(b *actors.Bench, h *protocol.Claim) func() error {
			return func() error { return b.Worker.Renew(b.Ctx, []*protocol.Claim{h})[0].Err }
		})},
		{"finish/a turn of many messages", turns, withActive(func(b *actors.Bench, h *protocol.Claim) func() error {
			expect.OK(b, steered(b, h))
			return finishMove(b, h, session.StatusDone, false)
		})},
		{"finish/a failed turn of many messages", turns, withActive(func(b *actors.Bench, h *protocol.Claim) func() error {
			expect.OK(b, steered(b, h))
			return finishMove(b, h, session.StatusFailed, false)
		})},
		{"park/a turn of many messages", turns, withActive(func(b *actors.Bench, h *protocol.Claim) func() error {
			expect.OK(b, steered(b, h))
			return func() error { return h.Park(b.Ctx, protocol.Parking{Interrupted: "drain"}) }
		})},
		{"erase/of a dead turn of many messages", turns, withActive(func(b *actors.Bench, _ *protocol.Claim) func() error {
			b.Die()
			fence := b.Redis.HGet(b.Ctx, b.Keys.Run(), "fence").Val()
			return func() error {
				return protocol.Do(b.Ctx, b.Redis, "erase", protocol.KeysOf(actors.Key, ""), nil, "fence", fence, "size", 500, "unused", 0, "last", true, "keep", false).Err()
			}
		})},

		{"claim/interrupted with a large journal", parts, checkpointed(func(b *actors.Bench, _ *protocol.Claim) func() error {
			b.Say("next", session.ModeInterrupt)
			b.Die()
			return claimMove(b)
		})},
		{"park/failed with a large journal", parts, checkpointed(func(b *actors.Bench, h *protocol.Claim) func() error {
			return func() error { return h.Park(b.Ctx, protocol.Parking{Failed: errors.New("no"), Wait: time.Hour}) }
		})},
		{"undo/a turn of many entries", size{500, 10_000}, undoing("e")}, // the most that undo reads
		{"undo/a turn of large entries", texts, undoing("E")},
		{"admit/beside a long line", lines, func(b *actors.Bench, f *filler, n int) func() error {
			f.line(lineTask, n)
			b.Client = actors.NewClientWith(b.Redis, turnstile.ClientConfig{Limits: session.Limits{Queue: 1 << 20, AllQueues: 1 << 20}})
			return func() error {
				_, err := receipt.Input(b.Ctx, b.Client.Session(actors.Key), turnstile.Message{Text: "new"})
				return err
			}
		}},
		{"texts/of many long messages", size{20, 40}, func(b *actors.Bench, f *filler, n int) func() error {
			f.line("L", n)
			return func() error {
				for _, err := range b.Client.Operate(actors.Key).Queue(b.Ctx) {
					return err // the first one
				}
				return nil
			}
		}},
		{"transcript_page/of large entries", size{20, 40}, func(b *actors.Bench, f *filler, n int) func() error {
			b.Say("one")
			b.Drain()
			f.past("E", n)
			return pastMove(b)
		}},
		{"transcript_page/of many entries", size{20_000, 50_000}, func(b *actors.Bench, f *filler, n int) func() error {
			b.Say("one")
			b.Drain()
			f.past("e", n)
			return pastMove(b)
		}},
		{"finish/with a lower cap of the transcript", size{501, 50_000}, func(b *actors.Bench, f *filler, n int) func() error {
			b.Worker = actors.NewWorker(b.T, b.Redis, "brief", func(c *protocol.Config) { c.TranscriptCap = 10 })
			b.SayAll("now", "next")
			h := b.Start()
			f.past("e", n)
			return finishMove(b, h, session.StatusDone, false)
		}},

		{"rerun/many", lines, func(b *actors.Bench, f *filler, n int) func() error {
			f.ended(deadTask, n, 0)
			return func() error { _, err := b.Client.Operate(actors.Key).Rerun(b.Ctx, admin.All); return err }
		}},
		{"rerun/large texts", texts, func(b *actors.Bench, f *filler, n int) func() error {
			f.ended("D", n, 0)
			return func() error { _, err := b.Client.Operate(actors.Key).Rerun(b.Ctx, admin.All); return err }
		}},
		{"discard/many", lines, discarding(deadTask)},
		{"discard/large texts", texts, discarding("D")},
		{"stop/large texts", texts, func(b *actors.Bench, f *filler, n int) func() error {
			f.line("L", n)
			return func() error { _, err := b.Client.Session(actors.Key).Stop(b.Ctx); return err }
		}},
		{"erase/many", lines, erasing(func(f *filler, n int) {
			f.line(lineTask, n)
			f.ended(deadTask, n, 0)
			f.ended(doneTask, n, 0)
		})},
		{"erase/many follow-ups", lines, erasing(func(f *filler, n int) {
			f.put(f.template("hash", lineTask, n, 0, ""), f.k.Followups())
		})},
		{"erase/a long transcript", lines, erasing(func(f *filler, n int) { f.past("e", n) })},
		{"erase/large texts", texts, erasing(func(f *filler, n int) {
			f.line("L", n)
			f.ended("D", n, 0)
			f.ended("C", n, 0)
		})},
		{"purge/many", lines, func(b *actors.Bench, f *filler, n int) func() error {
			f.ended(deadTask, n, 4*time.Hour)
			f.ended(doneTask, n, 4*time.Hour)
			return func() error {
				return protocol.Do(b.Ctx, b.Redis, "purge", protocol.KeysOf(actors.Key, ""), nil, "batch", 200, "archive_ttl", 3600, "quiet", 0, "events_cap", 1000).Err()
			}
		}},
		{"forget/a long transcript", lines, func(b *actors.Bench, f *filler, n int) func() error {
			b.Worker = actors.NewWorker(b.T, b.Redis, "forgetful", func(c *protocol.Config) { c.Retention = 0 })
			b.Say("now")
			b.Drain()
			keys := protocol.KeysOf(actors.Key, b.Info().TranscriptID)
			f.past("e", n)
			return func() error { return protocol.Do(b.Ctx, b.Redis, "forget", keys, nil, "age", -1).Err() }
		}},
		{"events_page/of a long stream", lines, reading(0)},
		{"events_page/of large events", size{100, 200}, reading(100 << 10)},
		{"events_after/of a long stream", lines, readingAfter(0)},
		{"events_after/of large events", size{100, 200}, readingAfter(100 << 10)},
		{"index_due/many", lines, func(b *actors.Bench, f *filler, n int) func() error {
			f.put(f.template("zset", "i", n, 0, ""), rediskey.Owned)
			f.seen[rediskey.Timer("reap")] = true
			return func() error { _, _, err := b.Worker.Reap(b.Ctx); return err }
		}},
		{"index_owned/in a full index", lines, func(b *actors.Bench, f *filler, n int) func() error {
			b.Say("now")
			h := b.Start()
			f.put(f.template("zset", "i", n, 0, ""), rediskey.Owned)
			return func() error { return b.Worker.Renew(b.Ctx, []*protocol.Claim{h})[0].Err }
		}},
		{"dispatch/many arrive", lines, func(b *actors.Bench, f *filler, n int) func() error {
			table := apply(b.T, b.Redis, `{"tenants": {}}`)
			b.Worker = actors.NewWorker(b.T, b.Redis, "sorts", sorted(table, "a"))
			f.put(f.template("zset", "x:a:", n, 0, ""), rediskey.Ready)
			return func() error { _, err := b.Worker.Pop(b.Ctx, 1); return err }
		}},
		{"hold/many are held back", lines, func(b *actors.Bench, f *filler, n int) func() error {
			b.Redis.Del(b.Ctx, rediskey.Ready, rediskey.Sorted, rediskey.Places, rediskey.Queues+"a") // of dispatch
			table := apply(b.T, b.Redis, `{"tenants": {}, "agents": {"a": {"running": 1}}}`)
			b.Worker = actors.NewWorker(b.T, b.Redis, "sorts", sorted(table, "a"))
			wake(b.T, b.Redis, "x:a:now")
			expect.List(b, "taken", pop(b.T, b.Worker, 1), "x:a:now")
			f.put(f.template("zset", "x:a:", n, 0, ""), rediskey.Held+"agent:a")
			expect.OK(b, b.Redis.ZAdd(b.Ctx, rediskey.Waits, redis.Z{Member: "agent:a"}).Err())
			return func() error { return b.Worker.Leave(b.Ctx, "x:a:now") }
		}},
		{"index_due/due", lines, func(b *actors.Bench, f *filler, n int) func() error {
			f.put(f.template("zset", "i", n, 0, ""), rediskey.Due)
			f.seen[rediskey.Timer("due")] = true
			return func() error { _, err := b.Worker.Due(b.Ctx); return err }
		}},
	}
}
