package outbox_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/internal/outbox"
	"turnstile/internal/protocol"
	"turnstile/internal/protocol/deliveries"
	"turnstile/internal/protocol/rediskey"
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
	_, _, err := (deliveries.Redrive{Session: other, Most: 10}).Do(r.ctx, r.rdb)
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
	const ahead, largest = "4503599627370496", "9007199254740991"
	for name, c := range map[string]struct {
		members []string
		dead    []string
		refused int64
	}{
		"ahead":                     {[]string{"bot " + ahead}, []string{"forged: its sequence " + ahead + " is above the session's last one"}, 1},
		"too large":                 {[]string{"bot " + largest, "bot 99999999999999999999"}, nil, 2},
		"none":                      {[]string{"bot", "bot ", "bot abc", "bot -1", "bot 0x1", "bot 1e3", "bot 007", "bot 1 2"}, nil, 8},
		"no destination":            {[]string{"", " ", " 1", "bot\n1", "\x00"}, nil, 5},
		"an unknown destination":    {[]string{"another abc"}, nil, 1},
		"more than a call looks at": {manyForged(250), nil, 250},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			v := r.receiver(nil)
			key := r.key(1)
			r.answer(key, "bot", "one")
			k := rediskey.For(key)
			body := r.rdb.HGet(r.ctx, k.Deliveries(), strings.TrimPrefix(r.rdb.ZRange(r.ctx, k.Outbox(), 0, 0).Val()[0], "bot ")).Val()
			for _, member := range c.members {
				if sequence, ok := strings.CutPrefix(member, "bot "); ok && sequence != "" {
					expect.OK(t, r.rdb.HSet(r.ctx, k.Deliveries(), sequence, body).Err())
				}
				expect.OK(t, r.rdb.ZAdd(r.ctx, k.Outbox(), redis.Z{Member: member}).Err())
			}
			r.due(key)
			counted := &counts{}
			v.deliverer(func(o *outbox.Options) { o.Observer = counted })
			expect.Equal(t, "what was delivered", v.next().message, "one")
			expect.Soon(t, "the end of all", func() bool { return r.stored(key) == 0 })
			v.nothing("with a sequence of its own choice")
			expect.List(t, "the dead letters", r.dead(key), c.dead...)
			expect.Soon(t, "what was refused", func() bool { return counted.refused.Load() >= c.refused })
			expect.Equal(t, "refused", counted.refused.Load(), c.refused)
		})
	}
}

// A forged dead letter keeps nobody from redriving the others.
func TestForgedDeadLetter(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	key := r.key(1)
	r.answer(key, "bot", "one")
	k := rediskey.For(key)
	stored := r.rdb.ZRange(r.ctx, k.Outbox(), 0, 0).Val()[0]
	expect.OK(t, r.rdb.ZRem(r.ctx, k.Outbox(), stored).Err())
	expect.OK(t, r.rdb.ZAdd(r.ctx, k.Undelivered(), redis.Z{Member: ""}, redis.Z{Member: "bot"}, redis.Z{Member: "bot abc"}, redis.Z{Member: "bot 9e99"}, redis.Z{Member: stored}).Err())
	n, more, err := deliveries.Redrive{Session: key, Most: 10}.Do(r.ctx, r.rdb)
	expect.OK(t, err)
	expect.Equal(t, "redriven", n, 1)
	expect.Equal(t, "more", more, false)
	v := r.receiver(nil)
	r.due(key)
	v.deliverer()
	expect.Equal(t, "what was delivered", v.next().message, "one")
	expect.Equal(t, "dead letters", r.rdb.ZCard(r.ctx, k.Undelivered()).Val(), 0)
}

func manyForged(n int) (members []string) {
	for i := range n {
		members = append(members, fmt.Sprintf("bot 0%d", i))
	}
	return members
}

// Sequences rise with Redis' clock. After it was put back they go on rising, and nothing is refused.
func TestSequenceAfterTheClockWasPutBack(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	v := r.receiver(nil)
	key := r.key(1)
	k := rediskey.For(key)
	before := time.Now().Add(365 * 24 * time.Hour).UnixMilli()
	expect.OK(t, r.rdb.HSet(r.ctx, k.Deliveries(), "seq", before).Err())
	r.answer(key, "bot", "one", "two")
	r.due(key)
	v.deliverer()
	for i, message := range []string{"one", "two"} {
		g := v.next()
		expect.Equal(t, "message", g.message, message)
		expect.Equal(t, "sequence", g.sequence, before+int64(i)+1)
	}
	expect.OK(t, r.rdb.HSet(r.ctx, k.Deliveries(), "seq", "9007199254740991").Err()) // by hand
	r.answer(key, "bot", "three")
	r.due(key)
	if g := v.next(); g.message != "three" || g.sequence > before {
		t.Errorf("%s has the sequence %d", g.message, g.sequence)
	}
}

// An agent's description of its failure is for operators. A destination receives it if it asks for it.
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
			_, err := r.Client.Session(r.key(1)).Send(r.ctx, turnstile.Message{ID: "m", Text: "hello", ReplyTo: "bot", ReplyContext: json.RawMessage(`{"chat":7,"detail":"mine"}`)})
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
