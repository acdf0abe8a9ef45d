package explore_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"turnstile"

	"turnstile/internal/protocol/deliveries"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/wire"
	"turnstile/internal/redis/script"
	"turnstile/test/actors"
	"turnstile/test/explore"
)

// hook is the destination of routed messages.
const hook = "hook"

// received is the list of the destination's deliveries, in their order: "sequence id type messages marks".
const received = "turnstile:received"

// post is a POST to the destination, which arrives at once. The marks are violations: another deliverer
// has the lease that this one trusts, the record is not in the outbox any more, or an earlier attempt
// arrived and this one does not say that it may be a duplicate.
const post = `
local sequence, id, kind, messages, token, till, unsure = unpack(ARGV)
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local marks = ''
if now < tonumber(till) then
  local line = redis.call('HGET', KEYS[2], 'line hook') or ''
  if string.match(line, '^%S+') ~= token then marks = ' held' end
  if not redis.call('ZSCORE', KEYS[3], 'hook ' .. sequence) then marks = marks .. ' gone' end
  for _, before in ipairs(redis.call('LRANGE', KEYS[1], 0, -1)) do
    if string.match(before, '^%S+ (%S+)') == id and unsure == '0' then marks = marks .. ' unmarked' end
  end
end
redis.call('RPUSH', KEYS[1], sequence .. ' ' .. id .. ' ' .. kind .. ' ' .. messages .. marks)
return 1`

const deliveryLease = 20 * time.Second

// routed is a sender of messages with a route.
func routed(name string, messages ...turnstile.Message) explore.Process {
	return explore.Process{Name: name, Crashes: true, Run: func(l *explore.Life) {
		c := actors.NewClient(l.Redis)
		for _, m := range messages {
			send(l, c, main, m, actors.ReplyTo(wire.Route{To: hook}))
		}
	}}
}

// routedBefore sends routed messages before the search.
func routedBefore(messages ...turnstile.Message) []func(*explore.Life) {
	return []func(*explore.Life){routed("before", messages...).Run}
}

// delivering is a deliverer that is notified of each new record.
func delivering(name string) explore.Process {
	return explore.Process{Name: name, Loops: true, Crashes: true, Run: func(l *explore.Life) { _, _ = deliver(l) },
		When: takes}
}

// noticing is a deliverer that looks once, at any time.
func noticing(name string) explore.Process {
	p := delivering(name)
	p.Loops, p.When = false, nil
	return p
}

// takes reports whether a record waits, and nobody else has it.
func takes(v explore.View) bool {
	k := rediskey.For(main)
	if !v.Has(k.Outbox()) {
		return false
	}
	line := strings.Fields(v.Field(k.Deliveries(), "line "+hook))
	return len(line) < 4 || script.Number(line[1]) <= v.Now() && script.Number(line[3]) <= v.Now()
}

// indexed is a deliverer without notifications: the sweep enters its sessions into the index.
func indexed(name string) explore.Process {
	return explore.Process{Name: name, Loops: true, Crashes: true, When: func(v explore.View) bool { return v.Due(rediskey.Outbox) },
		Run: func(l *explore.Life) {
			sessions, score, err := deliveries.DueOutbox(l.Context, l.Redis, 1, 2*deliveryLease)
			if err != nil || len(sessions) == 0 {
				return
			}
			if at, err := deliver(l); err == nil {
				_ = deliveries.RescoreOutbox(l.Context, l.Redis, main, score, at)
			}
		}}
}

// deliver delivers the stored records, and returns when to look again. It does not see its lease end: a
// late POST cannot be taken back.
func deliver(l *explore.Life) (at int64, err error) {
	for {
		taken, err := deliveries.TakeLines(l.Context, l.Redis, main, []deliveries.Line{{Destination: hook, MaxAge: 72 * time.Hour}}, deliveryLease)
		if err != nil || len(taken.Deliveries) == 0 {
			return taken.At, err
		}
		left := true
		for _, d := range taken.Deliveries {
			ok, more, err := attempt(l, d, taken.At)
			if err != nil || !ok {
				return taken.At, err
			}
			left = more
		}
		if left {
			last := taken.Deliveries[len(taken.Deliveries)-1]
			if _, _, err := (deliveries.Ack{Delivery: last, Verdict: deliveries.Untried}).Do(l.Context, l.Redis); err != nil {
				return taken.At, err
			}
		}
	}
}

// attempt posts one record and acks it. on reports whether the next one may follow.
func attempt(l *explore.Life, d deliveries.Delivery, till int64) (on, left bool, err error) {
	k, kind, messages := rediskey.For(main), field(d.Body, `"type":"`, `"`), field(d.Body, `"messages":[`, `]`)
	_, failed := l.Redis.Eval(l.Context, post, []string{received, k.Deliveries(), k.Outbox()},
		d.Sequence, d.ID, kind, messages, d.Token, till, d.Unsure).Result()
	ack := deliveries.Ack{Delivery: d, Verdict: deliveries.Delivered}
	if failed != nil {
		ack.Verdict, ack.Unsure, ack.Wait = deliveries.Again, true, time.Second
	}
	ok, left, err := ack.Do(l.Context, l.Redis)
	if err != nil {
		ok, left, err = ack.Do(l.Context, l.Redis)
	}
	if ok && err == nil && failed == nil {
		l.Report("delivered", d.Sequence)
	}
	return ok && failed == nil, left, err
}

// field returns the text between two others.
func field(body []byte, begin, end string) string {
	_, rest, _ := strings.Cut(string(body), begin)
	text, _, _ := strings.Cut(rest, end)
	return text
}

// owes reports whether a session has a reply that is undelivered or still to come.
func owes(v explore.View, key string) bool {
	k := rediskey.For(key)
	return v.Has(k.Owed()) || v.Has(k.Outbox())
}

// delivered reports whether all messages have an end and all replies have arrived.
func delivered(v explore.View) bool { return !waits(v, main) && !owes(v, main) }

// badDelivery finds replies that got lost, came twice or in another order.
func badDelivery(v explore.View) string {
	k := rediskey.For(main)
	owed, stored, posts := v.Fields(k.Owed()), v.Fields(k.Deliveries()), v.Members(received)
	for _, fact := range v.Facts() {
		if id, ok := strings.CutPrefix(fact, "accepted "+main+" "); ok && owed[id] == "" && !told(stored, posts, id, "message.") {
			return "undelivered: the reply to " + id + " is neither owed nor stored, and has not arrived"
		}
		if sequence, ok := strings.CutPrefix(fact, "delivered "); ok && slices.Contains(v.Members(k.Outbox()), hook+" "+sequence) {
			return "again: " + sequence + " was delivered, and is still stored"
		}
	}
	var ids []string
	last := int64(0)
	for _, p := range posts {
		words := strings.SplitN(p, " ", 5)
		if len(words) > 4 {
			return "delivery: " + p
		}
		if slices.Contains(ids, words[1]) {
			continue
		}
		ids = append(ids, words[1])
		if n := script.Number(words[0]); n <= last {
			return fmt.Sprintf("order: %s arrives behind %d", p, last)
		} else {
			last = n
		}
	}
	return ""
}

// told reports whether a record of a message is stored or has arrived. kind is the beginning of the
// record's type.
func told(stored map[string]string, posts []string, id, kind string) bool {
	has := func(text, kind string) bool {
		return strings.Contains(text, kind) && strings.Contains(text, `"`+id+`"`)
	}
	for _, body := range stored {
		if has(body, `"type":"`+kind) {
			return true
		}
	}
	return slices.ContainsFunc(posts, func(p string) bool { return has(p, " "+kind) })
}

// unlessResent is badDelivery where a POST may be repeated by the network.
func unlessResent(v explore.View) string {
	if what := badDelivery(v); !strings.HasSuffix(what, " unmarked") {
		return what
	}
	return ""
}

// notWithdrawn finds a turn that was undone and is not withdrawn.
func notWithdrawn(v explore.View) string {
	k := rediskey.For(main)
	if what := badDelivery(v); what != "" || v.Field(k.Record(), "undone") == "" {
		return what
	}
	if !told(v.Fields(k.Deliveries()), v.Members(received), "m1", "message.withdrawn") {
		return "withdrawn: m1 was undone, and no message.withdrawn is stored or has arrived"
	}
	return ""
}

// openQuestion finds a question that arrived without its end, when the path is over.
func openQuestion(v explore.View) string {
	if what := badDelivery(v); what != "" || !delivered(v) {
		return what
	}
	asked, closed := "", ""
	for _, p := range v.Members(received) {
		switch words := strings.SplitN(p, " ", 4); words[2] {
		case "question.asked":
			asked = words[0]
		case "question.closed":
			closed = words[0]
		}
	}
	if asked > closed {
		return "open: the question " + asked + " was never closed"
	}
	return ""
}
