package protocol_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"turnstile"
	"turnstile/internal/chat/receipt"
	"turnstile/internal/protocol"
	"turnstile/internal/protocol/deliveries"
	"turnstile/internal/protocol/wire"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// sendBy sends a message with its outcome to hook, by a time or within a duration.
func sendBy(b *actors.Bench, id, by string, opts ...actors.Option) {
	b.Helper()
	route, err := wire.Route{To: "hook"}.DeliverBy(by)
	expect.OK(b, err)
	_, err = receipt.Input(b.Ctx, b.Client.Session(actors.Key), actors.With(turnstile.Message{ID: id, Text: id, Mode: session.ModeCollect}, append(opts, actors.ReplyTo(route))...))
	expect.OK(b, err)
}

// takeAll takes the records to deliver now, and returns why others were given up.
func takeAll(b *actors.Bench, maxAge time.Duration) (taken deliveries.TakenLines, dead []string) {
	b.Helper()
	taken, err := deliveries.TakeLines(b.Ctx, b.Redis, actors.Key, []deliveries.Line{{Destination: "hook", MaxAge: maxAge}}, time.Minute)
	expect.OK(b, err)
	for _, member := range b.Redis.ZRange(b.Ctx, b.Keys.Undelivered(), 0, -1).Val() {
		_, sequence, _ := strings.Cut(member, " ")
		dead = append(dead, b.Redis.HGet(b.Ctx, b.Keys.Deliveries(), "why "+sequence).Val())
	}
	return taken, dead
}

const tooLate = "it was too late: its deliver_by was over"

// A message's own time counts, sooner or later than its destination's.
func TestDeliverBy(t *testing.T) {
	t.Parallel()
	past := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	for name, c := range map[string]struct {
		by     string
		maxAge time.Duration
		dead   string
	}{
		"a time that is over":           {past, time.Hour, tooLate},
		"the destination's":             {"", -time.Hour, "it was too old"},
		"a longer one":                  {"10m", -time.Hour, ""},
		"a longer one, as a time":       {time.Now().Add(time.Hour).Format(time.RFC3339), -time.Hour, ""},
		"one that is not representable": {"9999-12-31T23:59:59Z", -time.Hour, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			actors.OnceAndTwice(t, func(t *testing.T, b *actors.Bench) {
				sendBy(b, "a", c.by)
				b.Drain()
				taken, dead := takeAll(b, c.maxAge)
				if c.dead == "" {
					expect.Equal(t, "taken", len(taken.Deliveries), 1)
					expect.Equal(t, "has a time of its own", taken.Deliveries[0].By > taken.Now, true)
					return
				}
				expect.Equal(t, "taken", len(taken.Deliveries), 0)
				expect.List(t, "given up", dead, c.dead)
			})
		})
	}
}

// It counts from the acceptance, by Redis' clock.
func TestDeliverWithin(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	before := b.Redis.Time(b.Ctx).Val().UnixMilli()
	sendBy(b, "a", "5ms", actors.Delay(time.Second)) // its turn is later than that
	at, err := b.Redis.HGet(b.Ctx, b.Keys.Deliveries(), "deliver_by a").Int64()
	expect.OK(t, err)
	if now := b.Redis.Time(b.Ctx).Val().UnixMilli(); at < before+5 || at > now+5 {
		t.Errorf("deliver by %d, it was accepted between %d and %d", at, before, now)
	}
	expect.Soon(t, "the turn", func() bool {
		b.Drain()
		return b.Redis.ZCard(b.Ctx, b.Keys.Outbox()).Val() == 1
	})
	_, dead := takeAll(b, time.Hour)
	expect.List(t, "given up", dead, tooLate)
}

// A record of several messages is to be delivered as long as one of them wants it.
func TestDeliverByOfSeveral(t *testing.T) {
	t.Parallel()
	past := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	for _, c := range []struct {
		times []string
		taken int
	}{{[]string{past, past}, 0}, {[]string{past, "10m"}, 1}, {[]string{past, ""}, 1}} {
		t.Run(fmt.Sprint(c.times), func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			b.Say("now")
			h := b.Start()
			for i, by := range c.times {
				sendBy(b, fmt.Sprint("m", i), by)
				b.Redis.HSet(b.Ctx, b.Keys.Task(b.Task(fmt.Sprint("m", i))), "quiet", "1 100")
			}
			expect.Equal(t, "they are the next turn", b.Finish(h), true)
			b.Finish(h)
			taken, _ := takeAll(b, time.Hour)
			expect.Equal(t, "taken", len(taken.Deliveries), c.taken)
		})
	}
}

// An operator who redrives a record, or reruns a message, wants it delivered.
func TestDeliverByIsOverAfterRedriveAndRerun(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	sendBy(b, "a", time.Now().Add(-time.Hour).Format(time.RFC3339))
	_, err := b.Start().Finish(b.Ctx, protocol.End{Status: session.StatusFailed, Error: "no"})
	expect.OK(t, err)
	_, dead := takeAll(b, time.Hour)
	expect.List(t, "given up", dead, tooLate)

	_, _, err = deliveries.Redrive{Session: actors.Key, Call: "name", Most: 10}.Do(b.Ctx, b.Redis)
	expect.OK(t, err)
	taken, _ := takeAll(b, time.Hour)
	expect.Equal(t, "taken after a redrive", len(taken.Deliveries), 1)
	_, _, err = deliveries.Ack{Delivery: taken.Deliveries[0], Verdict: deliveries.Delivered}.Do(b.Ctx, b.Redis)
	expect.OK(t, err)

	// A worker of an earlier version leaves the field when it ends the message.
	b.Redis.HSet(b.Ctx, b.Keys.Deliveries(), "deliver_by a", "1")
	b.Command("/resume")
	b.Drain()
	taken, _ = takeAll(b, time.Hour)
	expect.Equal(t, "taken after a rerun", len(taken.Deliveries), 1)
	_, _, err = deliveries.Ack{Delivery: taken.Deliveries[0], Verdict: deliveries.Delivered}.Do(b.Ctx, b.Redis)
	expect.OK(t, err)
	for field := range b.Redis.HGetAll(b.Ctx, b.Keys.Deliveries()).Val() {
		if strings.HasPrefix(field, "deliver_by ") || strings.HasPrefix(field, "by ") {
			t.Errorf("%q is left", field)
		}
	}
}

// A notice that a reply is void is delivered however late: the reply may have arrived.
func TestWithdrawnHasNoDeliverBy(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	sendBy(b, "a", time.Now().Add(-time.Hour).Format(time.RFC3339))
	b.Drain()
	_, dead := takeAll(b, time.Hour)
	expect.List(t, "given up", dead, tooLate)
	b.Command("/undo")
	taken, _ := takeAll(b, time.Hour)
	expect.Equal(t, "taken", len(taken.Deliveries), 1)
	expect.List(t, "records", recorded(b), "message.withdrawn a")
}
