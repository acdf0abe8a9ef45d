package outbox_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/internal/outbox"
	"turnstile/internal/protocol"
	"turnstile/internal/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/expect"
)

// A session that a destination does not admit gets nothing to it, however its messages came. Once an
// operator has admitted it, he may redrive them.
func TestSessionsThatAreNotAdmitted(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	v := r.receiver(nil)
	mine, other := r.key(1), r.key(2)
	var now atomic.Pointer[outbox.Destinations]
	now.Store(r.destinations(map[string]string{"bot": v.url}, fmt.Sprintf(`, "from": [%q]`, mine)))
	counted := &counts{}
	v.deliverer(func(o *outbox.Options) { o.Destinations, o.Observer = now.Load, counted })
	r.answer(other, "bot", "no", "neither")
	expect.Soon(t, "the end of both", func() bool { return r.stored(other) == 0 })
	r.answer(mine, "bot", "yes")
	expect.Equal(t, "the first delivery", v.next().message, "yes")
	const why = `the destination admits no outcomes of this session: see "from" of bot`
	expect.List(t, "the dead letters", r.dead(other), why, why)
	expect.Equal(t, "what was refused", counted.refused.Load(), 2)

	now.Store(r.destinations(map[string]string{"bot": v.url}, fmt.Sprintf(`, "from": [%q]`, mine[:len(mine)-1]+"*")))
	_, _, err := (protocol.Redrive{Session: other, Most: 10}).Do(r.ctx, r.rdb)
	expect.OK(t, err)
	r.due(other)
	expect.List(t, "what was redriven", v.messages(2), "no", "neither")
}

// Who may write a session's keys cannot have records signed that name another session, or a sequence
// that silences the session. The line goes on.
func TestForgedRecords(t *testing.T) {
	t.Parallel()
	for name, forge := range map[string]struct{ old, new, why string }{
		"another session":     {`"session":"KEY"`, `"session":"telegram:42"`, `it names the session "telegram:42"`},
		"two sessions":        {`"session":"KEY"`, `"session":"telegram:42","session":"KEY"`, `"session" is there twice`},
		"two cases":           {`"session":"KEY"`, `"Session":"telegram:42","session":"KEY"`, `"session" is there twice`},
		"a letter that folds": {`"session":"KEY"`, `"ſession":"telegram:42","session":"KEY"`, `"session" is there twice`},
		"escaped":             {`"session":"KEY"`, `"\u0073ession":"telegram:42","session":"KEY"`, `"session" is there twice`},
		"two objects":         {`"data":{`, `"data":{"session":"KEY"},"DATA":{`, `"DATA" is there twice`},
		"no session":          {`"session":"KEY",`, ``, `its text cannot be read`},
		"no JSON":             {`{"type"`, `{type`, `its text cannot be read`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			v := r.receiver(nil)
			key := r.key(1)
			r.answer(key, "bot", "forged", "true")
			k := rediskey.For(key)
			first := strings.TrimPrefix(r.rdb.ZRange(r.ctx, k.Outbox(), 0, 0).Val()[0], "bot ")
			body := r.rdb.HGet(r.ctx, k.Deliveries(), first).Val()
			text := strings.NewReplacer("KEY", key)
			forged := strings.Replace(body, text.Replace(forge.old), text.Replace(forge.new), 1)
			if forged == body {
				t.Fatalf("nothing is forged in %s", body)
			}
			expect.OK(t, r.rdb.HSet(r.ctx, k.Deliveries(), first, forged).Err())
			r.due(key)
			counted := &counts{}
			v.deliverer(func(o *outbox.Options) { o.Observer = counted })
			expect.Equal(t, "what was delivered", v.next().message, "true")
			if why := strings.Join(r.dead(key), "; "); !strings.HasPrefix(why, "forged: ") || !strings.Contains(why, forge.why) {
				t.Errorf("the dead letter: %q", why)
			}
			expect.Equal(t, "what was refused", counted.refused.Load(), 1)
		})
	}
}

func TestForgedSequence(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	v := r.receiver(nil)
	key := r.key(1)
	r.answer(key, "bot", "one")
	k := rediskey.For(key)
	const last = "9007199254740991"
	body := r.rdb.HGet(r.ctx, k.Deliveries(), strings.TrimPrefix(r.rdb.ZRange(r.ctx, k.Outbox(), 0, 0).Val()[0], "bot ")).Val()
	expect.OK(t, r.rdb.HSet(r.ctx, k.Deliveries(), last, body).Err())
	expect.OK(t, r.rdb.ZAdd(r.ctx, k.Outbox(), redis.Z{Member: "bot " + last}).Err())
	r.due(key)
	v.deliverer()
	expect.Equal(t, "what was delivered", v.next().message, "one")
	expect.Soon(t, "the end of both", func() bool { return r.stored(key) == 0 })
	v.nothing("with a sequence of its own choice")
	expect.List(t, "the dead letter", r.dead(key), "forged: its sequence "+last+" is ahead of Redis' clock")
}

// What an agent says about its failure is for operators. A destination gets it if it asks for it.
func TestDetails(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		more string
		want bool
	}{"as usual": {"", false}, "asked for": {`, "detail": true`, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			v := r.receiver(func(g got) int { return map[bool]int{true: 503, false: 200}[g.attempt == 1] })
			all := r.destinations(map[string]string{"bot": v.url}, c.more)
			v.deliverer(func(o *outbox.Options) { o.Destinations = func() *outbox.Destinations { return all } })
			_, err := r.Client.Submit(r.ctx, r.key(1), session.Message{ID: "m", Text: "hello"},
				turnstile.ReplyTo(session.Route{To: "bot", Context: json.RawMessage(`{"chat":7,"detail":"mine"}`)}))
			expect.OK(t, err)
			claims, err := r.Worker.Claim(r.ctx, []string{r.key(1)})
			expect.OK(t, err)
			_, err = claims[0].Finish(r.ctx, protocol.End{Status: session.StatusFailed, Code: session.CodeAgentFailed, Error: "the agent failed", Detail: "key=<hunter2>"})
			expect.OK(t, err)
			first, second := v.next(), v.next()
			expect.Equal(t, "the second attempt's body", second.body, first.body)
			expect.Equal(t, "it has the detail", strings.Contains(first.body, `"detail":"key=<hunter2>"`), c.want)
			for _, part := range []string{`"context":{"chat":7,"detail":"mine"}`, `"error":"the agent failed","code":"agent_failed"`, `"status":"failed"`} {
				if !strings.Contains(first.body, part) {
					t.Errorf("%s lacks %s", first.body, part)
				}
			}
		})
	}
}
