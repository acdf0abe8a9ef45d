package protocol_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/deliveries"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

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
