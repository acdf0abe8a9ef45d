package outbox_test

import (
	"testing"
	"time"

	"turnstile"
	"turnstile/internal/protocol/wire"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// Nothing is sent after a message's deliver_by: no retry, and no record that waited for the retries of an
// earlier one. Later records are delivered.
func TestDeliverBy(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	key, soon := r.key(1), time.Now().Add(300*time.Millisecond)
	v := r.receiver(func(g got) int {
		if g.message == "first" && time.Now().Before(soon.Add(100*time.Millisecond)) {
			return 503
		}
		return 200
	})
	for _, m := range []struct {
		id    string
		route wire.Route
	}{{"first", wire.Route{}}, {"late", wire.Route{By: soon}}, {"last", wire.Route{Within: time.Hour}}} {
		m.route.To, m.route.Context = "bot", []byte(`{"chat":7}`)
		_, err := r.Client.Session(key).Send(r.ctx, actors.With(turnstile.Message{ID: m.id, Text: "hello"}, actors.ReplyTo(m.route)))
		expect.OK(t, err)
	}
	r.answer(key, "bot")
	r.due(key)
	v.deliverer()
	for g := v.next(); g.message != "last"; g = v.next() {
		expect.Equal(t, "delivered", g.message, "first")
	}
	expect.List(t, "the dead letters", r.dead(key), "it was too late: its deliver_by was over")
}

// A delivery that fails at its time is not tried again, and is not tried any longer because its
// destination allows that.
func TestDeliverByWhileItFails(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	key, soon := r.key(1), time.Now().Add(300*time.Millisecond)
	v := r.receiver(func(got) int { return 503 })
	_, err := r.Client.Session(key).Send(r.ctx, turnstile.Message{ID: "m", Text: "hello", ReplyTo: "bot", ReplyContext: []byte(`{"chat":7}`), ReplyBy: soon})
	expect.OK(t, err)
	r.answer(key, "bot")
	r.due(key)
	v.deliverer()
	expect.Soon(t, "a dead letter", func() bool { return len(r.dead(key)) == 1 })
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, g := range v.posts {
		if g.at.After(soon.Add(time.Second)) { // it is sent before its time, and may arrive after it
			t.Errorf("attempt %d arrived %s after its time", g.attempt, g.at.Sub(soon))
		}
	}
}
