package reference_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"turnstile/internal/protocol/deliveries"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/wire"
	"turnstile/pkg/admin"
	"turnstile/test/actors"
	"turnstile/test/reference"
)

// The operations of lives with routes, in place of a quarter of the others.
var ofDeliverers = []kind{visit, visit, visit, ack, ack, ack, ack, ack, ack, replyTo, redrive, asks, asks, archive, remove, runTask, timers}

const (
	deliveryLease = 40 * time.Second
	maxAge        = 20 * time.Minute
	hidden        = 50 * time.Second
)

// taken are the deliveries that a deliverer has not acknowledged yet, on both sides.
type taken struct {
	model  []reference.Attempt
	actual []deliveries.Delivery
}

// route is a message's route, and the sender's default.
func (l *life) route(a, b int) (to reference.Route, fallback string) {
	if !l.routed {
		return to, ""
	}
	to.To = []string{"", "", "", "a", "b", "a", reference.NoReply}[(a/16+b/8)%7]
	to.Context = []string{"", `{"chat":1}`, `{"chat":2}`}[(a/8+b)%3]
	to.Within = []int64{0, 0, 0, (5 * time.Minute).Milliseconds()}[(a/32+b/4)%4]
	return to, []string{"", "", "b"}[(a+b/16)%3]
}

func routeOption(to reference.Route) actors.Option {
	return actors.ReplyTo(wire.Route{To: to.To, Context: json.RawMessage(to.Context), Within: time.Duration(to.Within) * time.Millisecond})
}

func replyTo(l *life, a, _, c int) step {
	to := []string{"a", "b", "a", ""}[a%4]
	return l.faulty(c, sender, step{
		fmt.Sprintf("reply to %q", to),
		ok(func() { l.model.SetReplyTo(to) }),
		func() string { return word(l.actual.client.Session(key).SetReplyTo(l.actual.ctx, to)) },
	})
}

// asks is ask, or another operation for lack of a turn.
func asks(l *life, a, b, c int) step {
	if l.holder(c) == nil {
		return l.instead(a, b, c)
	}
	return ask(l, a, b, c)
}

// known are the destinations that a deliverer knows.
func known(a int) []reference.Destination {
	all := []reference.Destination{{Name: "a", MaxAge: maxAge.Milliseconds()}, {Name: "b", MaxAge: maxAge.Milliseconds()}}
	switch a % 8 {
	case 5:
		all[a/8%2].Paused = true
	case 6:
		return all[a/8%2:][:1]
	}
	return all
}

// visit is a deliverer's visit to the session, because it is due or regardless. It does not release
// earlier leases: they expire.
func visit(l *life, a, b, c int) step {
	return l.visits(a%2, known(a/2), b/8%2 == 0, c/4%4 == 3)
}

func (l *life) visits(who int, lines []reference.Destination, noticed, twice bool) step {
	var looked []string
	s := step{fmt.Sprintf("deliverer %d visits, noticed %v, knows %v", who, noticed, lines), func() string {
		l.taken[who].model = nil
		due := l.model.DueOutbox(hidden.Milliseconds())
		if !due && !noticed {
			return reference.OK
		}
		score := l.model.Index.Outbox
		t := l.model.Take(lines, deliveryLease.Milliseconds(), looked)
		if due {
			l.model.Rescore(score, t.At)
		}
		l.taken[who].model = t.Attempts
		var list []string
		for _, d := range t.Attempts {
			list = append(list, attemptText(d.To, d.Sequence, d.First, d.Number, d.Unsure, l.actual.start))
		}
		return takenText(due, t.At, t.Unknown, list, l.actual.start)
	}, func() string {
		l.taken[who].actual = nil
		var due, result string
		due, looked, result = l.actual.visit(lines, noticed, &l.taken[who].actual, twice)
		return due + result
	}}
	if twice {
		s.name += " (sent twice)"
	}
	return s
}

func attemptText(to string, sequence, first int64, number int, unsure bool, start int64) string {
	return fmt.Sprintf("%s %+d (%+d), attempt %d, unsure %v", to, sequence-start, first-start, number, unsure)
}

func takenText(due bool, at int64, unknown int, list []string, start int64) string {
	return fmt.Sprintf("due %v, again %s, %d unknown, %q", due, reference.At(at, start), unknown, list)
}

// visit also returns the messages with a promised delivery, in the order of the scan.
func (b *actual) visit(lines []reference.Destination, noticed bool, list *[]deliveries.Delivery, twice bool) (due string, looked []string, result string) {
	sessions, score, err := deliveries.DueOutbox(b.ctx, b.rdb, 10, hidden)
	b.must(err)
	isDue := slices.Contains(sessions, key)
	if !isDue && !noticed {
		return "", nil, reference.OK
	}
	owed, _, err := b.rdb.HScan(b.ctx, b.k.Owed(), 0, "", 1000).Result()
	b.must(err)
	for i := 0; i < len(owed); i += 2 {
		looked = append(looked, b.names.message(owed[i]))
	}
	var known []deliveries.Line
	for _, d := range lines {
		known = append(known, deliveries.Line{Destination: d.Name, MaxAge: time.Duration(d.MaxAge) * time.Millisecond, Paused: d.Paused})
	}
	if twice {
		b.faults.RunTwice(named("take"), -1)
	}
	t, err := deliveries.TakeLines(b.ctx, b.rdb, key, known, deliveryLease)
	b.must(err)
	if isDue {
		b.must(deliveries.RescoreOutbox(b.ctx, b.rdb, key, score, t.At))
	}
	texts := b.rdb.HGetAll(b.ctx, b.k.Deliveries()).Val()
	*list = t.Deliveries
	var told []string
	for _, d := range t.Deliveries {
		text := attemptText(d.Destination, d.Sequence, number(d.ID[len(rediskey.IDPrefix(key)):]), d.Attempt, d.Unsure, b.start)
		if stored := texts[fmt.Sprint(d.Sequence)]; string(d.Body) != stored {
			text += fmt.Sprintf(", with %q, stored is %q", d.Body, stored)
		}
		told = append(told, text)
	}
	return "", looked, takenText(isDue, t.At, t.Unknown, told, b.start)
}

// ack ends an attempt: mostly a deliverer's first, and sometimes one after its lease.
func ack(l *life, a, b, c int) step {
	who := a % 2
	if len(l.taken[who].model) == 0 {
		who = 1 - who
	}
	t := &l.taken[who]
	if len(t.model) == 0 {
		return visit(l, a, b, c)
	}
	v := reference.Ack{Verdict: []string{"delivered", "delivered", "delivered", "again", "again", "dead", "release"}[a/2%7]}
	if v.Verdict == "again" {
		v.Wait, v.Unsure, v.Why = int64(b/8%3)*30_000, b/32%2 == 0, "503"
	}
	if v.Verdict == "dead" {
		v.Unsure = b/32%2 == 0
	}
	return l.acks(t, v, c)
}

func (l *life) acks(t *taken, v reference.Ack, c int) step {
	model, actual := t.model[0], t.actual[:min(len(t.actual), 1)]
	rest := func(ok, left bool) string {
		if t.model = t.model[1:]; !ok || v.Verdict == "again" || v.Verdict == "release" || len(t.model) > 0 && t.model[0].To != model.To && !left {
			t.model = slices.DeleteFunc(t.model, func(d reference.Attempt) bool { return d.To == model.To })
		}
		return fmt.Sprintf("ok %v, left %v", ok, left)
	}
	return l.faulty(c, owner, step{
		fmt.Sprintf("ack %s: %+v", attemptText(model.To, model.Sequence, model.First, model.Number, model.Unsure, l.actual.start), v),
		func() string { return rest(l.model.Ack(model, v)) },
		func() string {
			if len(actual) == 0 {
				return "nothing was taken"
			}
			ack := deliveries.Ack{Delivery: actual[0], Verdict: deliveries.Verdict(v.Verdict), Wait: time.Duration(v.Wait) * time.Millisecond, Unsure: v.Unsure, Why: v.Why}
			ok, left, err := ack.Do(l.actual.ctx, l.actual.rdb)
			if err != nil { // a deliverer sends it again
				ok, left, err = ack.Do(l.actual.ctx, l.actual.rdb)
			}
			l.actual.must(err)
			to := actual[0].Destination
			if t.actual = t.actual[1:]; !ok || v.Verdict == "again" || v.Verdict == "release" {
				t.actual = slices.DeleteFunc(t.actual, func(d deliveries.Delivery) bool { return d.Destination == to })
			}
			return fmt.Sprintf("ok %v, left %v", ok, left)
		},
	})
}

func redrive(l *life, a, _, c int) step {
	if len(l.model.Undelivered) == 0 && c%4 > 0 {
		return visit(l, a, 0, c)
	}
	to, drop := []string{"", "a", "b"}[a%3], a/3%3 == 0
	s := step{
		fmt.Sprintf("redrive %q, drop %v", to, drop),
		func() string { return fmt.Sprint(l.model.Redrive(to, drop)) },
		func() string {
			do := l.actual.client.Operate(key).Redrive
			if drop {
				do = l.actual.client.Operate(key).DeleteUndelivered
			}
			n, err := do(l.actual.ctx, cmp.Or(to, admin.All))
			l.actual.must(err)
			return fmt.Sprint(n)
		},
	}
	return l.faulty(c, retrier, s)
}

// deliverAll delivers all records. Then only waiting messages have a promised delivery.
func (l *life) deliverAll(d *difference) *difference {
	for range 4 + 4*len(l.model.Stored) + len(l.model.Owed) {
		l.pass(time.Second)
		s, t := l.visits(0, known(0), true, false), &l.taken[0]
		if len(t.model) > 0 {
			s = l.acks(t, reference.Ack{Verdict: "delivered"}, 0)
		} else {
			l.pass(5 * time.Minute)
		}
		if l.make(d, s) {
			return d
		}
		if len(l.model.Stored) == 0 && !slices.ContainsFunc(slices.Collect(maps.Keys(l.model.Owed)), func(id string) bool {
			m := l.model.Messages[id]
			return m == nil || m.State != reference.Scheduled
		}) {
			return nil
		}
	}
	d.what = append(d.what, fmt.Sprintf("after all this %v is owed, and %v stored", l.model.Owed, l.model.Stored))
	return d
}

// eraseOptions are the options of an Erase that may drop undelivered replies.
func eraseOptions(drop bool) []admin.EraseOption {
	if drop {
		return []admin.EraseOption{admin.EraseUndelivered()}
	}
	return nil
}
