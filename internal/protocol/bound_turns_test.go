package protocol_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/deliveries"
	"turnstile/pkg/admin"
	"turnstile/pkg/resume"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// resumeSituations are those of pkg/resume's scripts.
func resumeSituations() []wide {
	with := func(name string, move func(b *actors.Bench) error) wide {
		return wide{"resume " + name, lines, func(b *actors.Bench, f *filler, n int) func() error {
			b.Say("now")
			b.Start()
			f.surround(n)
			return func() error { return move(b) }
		}}
	}
	return []wide{
		with("mark", func(b *actors.Bench) error { _, err := resume.Mark(b.Ctx, b.Redis, actors.Key, ""); return err }),
		with("clear", func(b *actors.Bench) error { _, err := resume.Clear(b.Ctx, b.Redis, actors.Key); return err }),
		with("suspend", func(b *actors.Bench) error { _, err := resume.Suspend(b.Ctx, b.Redis, actors.Key); return err }),
		with("read", func(b *actors.Bench) error { _, err := resume.Read(b.Ctx, b.Redis, actors.Key); return err }),
	}
}

func steering(kind string) func(*actors.Bench, *filler, int) func() error {
	return func(b *actors.Bench, f *filler, n int) func() error {
		b.Say("now")
		h := b.Start()
		b.Say("one", session.ModeSteer)
		f.line(kind, n)
		return func() error { _, err := h.Steer(b.Ctx); return err }
	}
}

func collecting(kind string) func(*actors.Bench, *filler, int) func() error {
	return func(b *actors.Bench, f *filler, n int) func() error {
		f.line(kind, n)
		return claimMove(b)
	}
}

func discarding(kind string) func(*actors.Bench, *filler, int) func() error {
	return func(b *actors.Bench, f *filler, n int) func() error {
		f.ended(kind, n, 0)
		return func() error { _, err := b.Client.Operate(actors.Key).DeleteDeadLetters(b.Ctx, admin.All); return err }
	}
}

func erasing(fill func(f *filler, n int)) func(*actors.Bench, *filler, int) func() error {
	return func(b *actors.Bench, f *filler, n int) func() error {
		b.Say("one")
		b.Drain()
		fill(f, n)
		keys := protocol.KeysOf(actors.Key, b.Info().TranscriptID)
		return func() error { // not Erase, which would search all of the filling's keys
			fence := b.Redis.HGet(b.Ctx, b.Keys.Run(), "fence").Val()
			for range 2 { // the first look may come before everything is there
				if err := protocol.Do(b.Ctx, b.Redis, "erase", keys, keys[6:7], "fence", fence, "size", 500, "unused", 0, "last", true, "keep", false).Err(); err != nil {
					return err
				}
			}
			return nil
		}
	}
}

func undoing(kind string) func(*actors.Bench, *filler, int) func() error {
	return func(b *actors.Bench, f *filler, n int) func() error {
		b.Say("one")
		b.Drain()
		id := b.Info().TranscriptID
		b.Redis.Del(b.Ctx, b.Keys.Transcript(id))
		f.past(kind, n) // all of the turn "old"
		return func() error {
			return protocol.Do(b.Ctx, b.Redis, "undo", protocol.KeysOf(actors.Key, id), []string{b.Keys.Call("undo-old")}, "by", "", "turn", "old", "id", "", "msg", "", "sid", id,
				"entries", n, "length", n, "written", b.Info().Entries, "unsaid", "", "messages", []string{}).Err()
		}
	}
}

func pastMove(b *actors.Bench) func() error {
	b.Say("now")
	h := b.Start()
	return func() error { _, err := h.History(b.Ctx); return err }
}

// reading reads a page of a stream of events of that size.
func reading(bytes int) func(*actors.Bench, *filler, int) func() error {
	return func(b *actors.Bench, f *filler, n int) func() error {
		f.past("e", n)
		f.seen[b.Keys.Events()] = true
		for i := 0; bytes > 0 && i < n; i++ {
			expect.OK(b, b.Redis.XAdd(b.Ctx, &redis.XAddArgs{Stream: b.Keys.Events(), Values: []string{"e", strings.Repeat("x", bytes)}}).Err())
		}
		return func() error {
			return protocol.Do(b.Ctx, b.Redis, "events_page", protocol.KeysOf(actors.Key, ""), nil, "after", "0", "room", 2<<20).Err()
		}
	}
}

// readingAfter reads a page of such a stream after its first event.
func readingAfter(bytes int) func(*actors.Bench, *filler, int) func() error {
	return func(b *actors.Bench, f *filler, n int) func() error {
		reading(bytes)(b, f, n)
		first, err := b.Redis.XRangeN(b.Ctx, b.Keys.Events(), "-", "+", 1).Result()
		expect.OK(b, err)
		return func() error {
			return protocol.Do(b.Ctx, b.Redis, "events_after", protocol.KeysOf(actors.Key, ""), nil, "after", first[0].ID, "seen", 1, "room", 2<<20).Err()
		}
	}
}

// checkpointed is a turn that has checkpointed n texts.
func checkpointed(then func(*actors.Bench, *protocol.Claim) func() error) func(*actors.Bench, *filler, int) func() error {
	return func(b *actors.Bench, f *filler, n int) func() error {
		b.Say("now")
		h := b.Start()
		entries := make([]session.Entry, n)
		for i := range entries {
			entries[i] = session.Entry{Role: session.RoleAssistant, Text: strings.Repeat("x", 1<<18)}
		}
		expect.OK(b, actors.Checkpoint(b.Ctx, h, entries))
		return then(b, h)
	}
}

// withActive is a turn with n steered messages.
func withActive(then func(*actors.Bench, *protocol.Claim) func() error) func(*actors.Bench, *filler, int) func() error {
	return func(b *actors.Bench, f *filler, n int) func() error {
		b.Say("now")
		h := b.Start()
		f.tasks(activeTask, n)
		f.put(f.template("list", activeTask, n, 0, f.idPrefix), b.Keys.Active())
		var ids []string
		expect.OK(b, json.Unmarshal([]byte(b.Redis.HGet(b.Ctx, b.Keys.Run(), "ids").Val()), &ids))
		for i := range n {
			ids = append(ids, b.Task(fmt.Sprintf("%s%06d", activeTask, i)))
		}
		text, err := json.Marshal(ids)
		expect.OK(b, err)
		expect.OK(b, b.Redis.HSet(b.Ctx, b.Keys.Run(), "ids", text).Err())
		return then(b, h)
	}
}

// steered hands the steered messages to the owner.
func steered(b *actors.Bench, h *protocol.Claim) error {
	_, err := h.Steer(b.Ctx)
	return err
}

// note fills the note of dropped messages for the next turn: n messages, and a line for each of the
// newest.
func (f *filler) note(n int) {
	ids := make([]string, min(n, 50))
	for i := range ids {
		ids[i] = fmt.Sprintf("%s%s%06d", f.idPrefix, lineTask, i)
	}
	text, err := json.Marshal(ids)
	expect.OK(f.t, err)
	expect.OK(f.t, f.rdb.HSet(f.t.Context(), f.k.Record(), "v", "1", "created_at", 1, "dropped", text, "omitted", n-len(ids), "omitted_told", 0).Err())
}

// due adds n due tasks to each of asynq's lists of delayed tasks.
func (f *filler) due(n int) {
	f.tasks(lineTask, n)
	for _, zset := range []string{f.k.Scheduled(), f.k.Retry()} {
		for _, z := range []redis.Z{{Score: 1, Member: f.idPrefix + lineTask + "000000"}} {
			expect.OK(f.t, f.rdb.ZAdd(f.t.Context(), zset, z).Err())
		}
		f.put(f.template("zset", lineTask, n, 1000, f.idPrefix), zset)
	}
}

// outboxWide are sessions with many undelivered outcomes.
func outboxWide() []wide {
	const first = int64(1_700_000_000_000)
	// stored fills the outbox with n records of size bytes for n/each destinations.
	stored := func(b *actors.Bench, key string, n, each, size int) {
		body := strings.Repeat("x", size)
		for at := 0; at < n; at += 100 {
			_, err := b.Redis.Pipelined(b.Ctx, func(p redis.Pipeliner) error {
				for i := at; i < min(at+100, n); i++ {
					p.ZAdd(b.Ctx, key, redis.Z{Member: fmt.Sprintf("hook%d %d", i/each, first+int64(i))})
					p.HSet(b.Ctx, b.Keys.Deliveries(), fmt.Sprint(first+int64(i)), body)
				}
				return nil
			})
			expect.OK(b, err)
		}
	}
	take := func(b *actors.Bench, age time.Duration) func() error {
		return func() error {
			_, err := deliveries.TakeLines(b.Ctx, b.Redis, actors.Key, []deliveries.Line{{Destination: "hook0", MaxAge: age}, {Destination: "hook1", MaxAge: age}}, time.Minute)
			return err
		}
	}
	const ever = 100 * 365 * 24 * time.Hour
	return []wide{
		{"take/a long line of records", lines, func(b *actors.Bench, _ *filler, n int) func() error {
			stored(b, b.Keys.Outbox(), n, n, 100)
			return take(b, ever)
		}},
		{"take/many destinations", lines, func(b *actors.Bench, _ *filler, n int) func() error {
			stored(b, b.Keys.Outbox(), n, 1, 100)
			return take(b, ever)
		}},
		{"take/large records", size{20, 80}, func(b *actors.Bench, _ *filler, n int) func() error {
			stored(b, b.Keys.Outbox(), n, n, 256<<10)
			return take(b, ever)
		}},
		{"take/records that are too old", lines, func(b *actors.Bench, _ *filler, n int) func() error {
			stored(b, b.Keys.Outbox(), n, n, 100)
			return take(b, time.Hour)
		}},
		{"take/promises of messages that are gone", lines, func(b *actors.Bench, _ *filler, n int) func() error {
			for i := range n {
				b.Redis.HSet(b.Ctx, b.Keys.Owed(), fmt.Sprint("gone", i), `hook0 - {"chat":"`+strings.Repeat("x", 70)+`"}`)
			}
			return take(b, ever)
		}},
		{"owing/a long line of records", lines, func(b *actors.Bench, _ *filler, n int) func() error {
			stored(b, b.Keys.Outbox(), n, n, 100)
			return func() error {
				return protocol.Do(b.Ctx, b.Redis, "owing", protocol.KeysOf(actors.Key, ""), nil, "cursor", "0").Err()
			}
		}},
		{"owing/many destinations", lines, func(b *actors.Bench, _ *filler, n int) func() error {
			stored(b, b.Keys.Outbox(), n, 1, 100)
			for i := range n {
				b.Redis.HSet(b.Ctx, b.Keys.Deliveries(), fmt.Sprint("n hook", i), 1)
			}
			return func() error {
				return protocol.Do(b.Ctx, b.Redis, "owing", protocol.KeysOf(actors.Key, ""), nil, "cursor", "0").Err()
			}
		}},
		{"ack/a long line of records", lines, func(b *actors.Bench, _ *filler, n int) func() error {
			stored(b, b.Keys.Outbox(), n, n, 100)
			taken, err := deliveries.TakeLines(b.Ctx, b.Redis, actors.Key, []deliveries.Line{{Destination: "hook0", MaxAge: ever}}, time.Minute)
			expect.OK(b, err)
			return func() error {
				_, _, err := deliveries.Ack{Delivery: taken.Deliveries[0], Verdict: deliveries.Delivered}.Do(b.Ctx, b.Redis)
				return err
			}
		}},
		{"redrive/many records", lines, func(b *actors.Bench, _ *filler, n int) func() error {
			stored(b, b.Keys.Undelivered(), n, n, 100)
			return func() error {
				_, _, err := deliveries.Redrive{Session: actors.Key, Call: "name", Most: 100}.Do(b.Ctx, b.Redis)
				return err
			}
		}},
		{"pause/many destinations", lines, func(b *actors.Bench, _ *filler, n int) func() error {
			for i := range n {
				expect.OK(b, deliveries.SetDestination(b.Ctx, b.Redis, fmt.Sprint("hook", i), deliveries.DestinationState{Paused: true, At: 1}))
			}
			return func() error {
				_, err := deliveries.Finding{Destination: "hook0", Pause: time.Minute, Why: "503"}.Store(b.Ctx, b.Redis)
				return err
			}
		}},
		{"outbox_due/many sessions", lines, func(b *actors.Bench, _ *filler, n int) func() error {
			for i := range n {
				b.Redis.ZAdd(b.Ctx, "turnstile:outbox", redis.Z{Score: 1, Member: fmt.Sprint("s", i)})
			}
			return func() error {
				_, _, err := deliveries.DueOutbox(b.Ctx, b.Redis, 100, time.Minute)
				return err
			}
		}},
	}
}
