package admin_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"turnstile"
	"turnstile/internal/protocol/deliveries"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/admin"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// courier is a deliverer of the destination "hook", and counts how often each message was delivered.
type courier struct {
	*actors.Bench
	got     map[string]int
	dropped int // outcomes that operators have deleted
}

// owe sends a message with an outcome for the destination.
func (c *courier) owe(id string) {
	c.Helper()
	_, err := c.Client.Session(actors.Key).Send(c.Ctx, turnstile.Message{ID: id, Text: id, ReplyTo: "hook"})
	expect.OK(c, err)
}

// serve takes all records, and writes down the verdict.
func (c *courier) serve(verdict deliveries.Verdict) {
	c.Helper()
	for {
		taken, err := deliveries.TakeLines(c.Ctx, c.Redis, actors.Key, []deliveries.Line{{Destination: "hook", MaxAge: time.Hour}}, time.Minute)
		expect.OK(c, err)
		if len(taken.Deliveries) == 0 {
			return
		}
		for _, d := range taken.Deliveries {
			var body struct{ Data struct{ Messages []string } }
			expect.OK(c, json.Unmarshal(d.Body, &body))
			ok, _, err := deliveries.Ack{Delivery: d, Verdict: verdict, Why: "HTTP status 422"}.Do(c.Ctx, c.Redis)
			expect.OK(c, err)
			expect.Equal(c, "the lease is held", ok, true)
			if verdict == deliveries.Delivered {
				c.got[body.Data.Messages[0]]++
			}
		}
		last := taken.Deliveries[len(taken.Deliveries)-1]
		_, _, err = deliveries.Ack{Delivery: last, Verdict: deliveries.Untried}.Do(c.Ctx, c.Redis)
		expect.OK(c, err)
	}
}

func (c *courier) drop(a *admin.Client) error {
	n, err := a.Session(actors.Key).DeleteUndelivered(c.Ctx, admin.All)
	c.dropped += n
	return err
}

const undelivered = 25 // more than one call of the script moves

// onOutbox are operations that make several calls about deliveries. Each begins with a delivery that is
// stored and many that were given up.
var onOutbox = map[string]func(c *courier, a *admin.Client) error{
	"redrive": func(c *courier, a *admin.Client) error {
		_, err := a.Session(actors.Key).Redrive(c.Ctx, "hook")
		return err
	},
	"drop":  func(c *courier, a *admin.Client) error { return c.drop(a) },
	"erase": func(c *courier, a *admin.Client) error { return a.Session(actors.Key).Erase(c.Ctx) },
	"erase undelivered": func(c *courier, a *admin.Client) error {
		return a.Session(actors.Key).Erase(c.Ctx, admin.EraseUndelivered())
	},
}

// outboxRivals are the actions of others meanwhile. Each sends the message "new" last.
var outboxRivals = map[string]func(c *courier){
	"delivers":    func(c *courier) { c.serve(deliveries.Delivered) },
	"gives up":    func(c *courier) { c.serve(deliveries.GiveUp) },
	"redrives":    func(c *courier) { _, _ = c.Client.Operate(actors.Key).Redrive(c.Ctx, admin.All) },
	"drops":       func(c *courier) { expect.OK(c, c.drop(admin.NewClient(c.Redis))) },
	"erases":      func(c *courier) { expect.OK(c, c.Client.Operate(actors.Key).Erase(c.Ctx, admin.EraseUndelivered())) },
	"a turn ends": func(c *courier) { c.owe("ends"); c.Finish(c.Start()) },
}

// A rival that comes before any command of an operation on deliveries has none lost, delivered twice, or
// kept that an operator has deleted.
func TestRivalsBeforeEachCommandOnDeliveries(t *testing.T) {
	t.Parallel()
	expect.Unraced(t)
	for name, operation := range onOutbox {
		for other, rival := range outboxRivals {
			t.Run(name+", "+other, func(t *testing.T) {
				t.Parallel()
				beforeEachCommand(t, func(b *actors.Bench, n int) bool {
					c := &courier{Bench: b, got: map[string]int{}}
					for i := range undelivered {
						c.owe(fmt.Sprint("m", i))
					}
					c.Drain()
					c.serve(deliveries.GiveUp)
					c.owe("stored")
					c.Drain()
					own, came := rivalled(b, n, func() {
						rival(c)
						c.owe("new")
					})
					err := operation(c, admin.NewClient(own))
					return *came && c.check(name, other, err)
				})
			})
		}
	}
}

// check checks the state after an operation and its rival.
func (c *courier) check(operation, rival string, failed error) bool {
	c.Helper()
	before := maps.Clone(c.got)
	c.Drain()
	_, err := c.Client.Operate(actors.Key).Redrive(c.Ctx, admin.All)
	expect.OK(c, err)
	c.serve(deliveries.Delivered)
	for id, n := range c.got {
		expect.Equal(c, "deliveries of "+id, n, 1)
	}
	_, _, _, err = actors.MessageState(c.Ctx, c.Client.Session(actors.Key), "new")
	erased := operation == "erase undelivered" && errors.Is(err, session.ErrNotFound)
	expect.Equal(c, "new is delivered", c.got["new"] == 1, !erased)
	all := undelivered + 2
	if rival == "a turn ends" {
		all++
	}
	switch operation {
	case "erase":
		expect.Equal(c, "refused", errors.Is(failed, session.ErrUndelivered), true)
	case "erase undelivered":
		expect.OK(c, failed)
		for id := range c.got { // the rival's message may have come after the erase
			expect.Equal(c, id+" is delivered after the erase", before[id] == 0 && id != "new" && id != "ends", false)
		}
		return true
	default:
		expect.OK(c, failed)
	}
	if rival != "erases" {
		expect.Equal(c, "delivered or deleted", len(c.got)+c.dropped, all)
	}
	if operation == "drop" && rival != "erases" && rival != "redrives" {
		expect.Equal(c, "deleted", c.dropped >= undelivered, true)
	}
	return true
}

// An operator's setting of a destination counts, whatever a deliverer stores between its commands.
// After an enabling no session waits for the end of an earlier pause.
func TestRivalsOfSetDestination(t *testing.T) {
	t.Parallel()
	find := func(f deliveries.Finding) func(b *actors.Bench, score int64) {
		return func(b *actors.Bench, _ int64) {
			own := f // subtests run in parallel
			own.Destination, own.Why = "hook", "found"
			_, err := own.Store(b.Ctx, b.Redis)
			expect.OK(b, err)
		}
	}
	found := map[string]func(b *actors.Bench, score int64){
		"it fails":   find(deliveries.Finding{Pause: time.Hour}),
		"it works":   find(deliveries.Finding{}),
		"it is gone": find(deliveries.Finding{Disabled: true}),
		"a visit's ends": func(b *actors.Bench, score int64) { // which has seen the pause
			expect.OK(b, deliveries.RescoreOutbox(b.Ctx, b.Redis, actors.Key, score, time.Now().Add(time.Hour).UnixMilli()))
		},
	}
	for word, state := range map[string]deliveries.DestinationState{
		"disable": {Disabled: true, Why: "operator"}, "pause": {Paused: true, Why: "operator"}, "enable": {},
	} {
		for name, rival := range found {
			t.Run(word+", "+name, func(t *testing.T) {
				t.Parallel()
				beforeEachCommand(t, func(b *actors.Bench, n int) bool {
					c := &courier{Bench: b}
					find(deliveries.Finding{Pause: time.Hour})(b, 0)
					c.owe("stored")
					c.Drain()
					expect.OK(b, deliveries.IndexOutboxNow(b.Ctx, b.Redis, actors.Key))
					visited, score, err := deliveries.DueOutbox(b.Ctx, b.Redis, 1, time.Hour)
					expect.OK(b, err)
					expect.List(b, "visited", visited, actors.Key)
					var enabled bool // before the rival came
					own, came := rivalled(b, n, func() {
						enabled = !b.Redis.HExists(b.Ctx, rediskey.Destinations, "hook").Val()
						rival(b, score)
					})
					expect.OK(b, actors.SetDestination(b.Ctx, own, "hook", state))
					if word != "enable" {
						rival(b, score) // later, too
					}
					states, _, err := deliveries.Destinations(b.Ctx, b.Redis)
					expect.OK(b, err)
					later := word == "enable" && enabled && states["hook"].Why == "found"
					if s := states["hook"]; s != state && !later {
						b.Errorf("the state is %+v", s)
					}
					if at := b.Redis.ZScore(b.Ctx, rediskey.Outbox, actors.Key).Val(); word == "enable" && at > float64(time.Now().UnixMilli()) {
						b.Errorf("the session waits until %f", at)
					}
					return *came
				})
			})
		}
	}
}
