package turnstile_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/internal/chat/receipt"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/wire"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// The cap bounds a destination's undelivered outcomes over all sessions, as workers have counted
// them. It also refuses a message that goes there by its session's setting, and no other message.
func TestDestinationCap(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	submit := func(most int, sessionKey, id string, o ...actors.Option) error {
		_, err := actors.NewClientWith(b.Redis, turnstile.ClientConfig{Limits: session.Limits{Destination: most}}).Session(sessionKey).Send(b.Ctx, actors.With(turnstile.Message{ID: id, Text: id}, o...))
		return err
	}
	to := func(name string) actors.Option { return actors.ReplyTo(wire.Route{To: name}) }
	for i := range 3 { // more than the cap: not counted yet
		expect.OK(t, submit(2, fmt.Sprint("s", i), "m", to("hook")))
	}
	b.TrimAll()
	full := func(why string, err error) {
		t.Helper()
		if !errors.Is(err, session.ErrOutboxFull) {
			t.Errorf("%s: %v", why, err)
		}
	}
	full("by its own route", submit(2, "s3", "m", to("hook")))
	byDefault := actors.NewClientWith(b.Redis, turnstile.ClientConfig{Limits: session.Limits{Destination: 2}, DefaultReplyTo: func(string) string { return "hook" }})
	_, err := byDefault.Session("s3").Send(b.Ctx, turnstile.Message{ID: "m", Text: "m"})
	full("by the sender's default", err)
	expect.Equal(t, "stored", b.Redis.Exists(b.Ctx, rediskey.For("s3").Pending()).Val(), 0)
	expect.OK(t, submit(2, "s0", "m", to("hook"))) // a repetition
	expect.OK(t, submit(2, "s3", "other", to("another")))
	expect.OK(t, submit(2, "s3", "none"))
	expect.OK(t, submit(4, "s3", "higher", to("hook")))
	expect.OK(t, submit(-1, "s3", "unbounded", to("hook")))

	c := actors.NewClientWith(b.Redis, turnstile.ClientConfig{Limits: session.Limits{Destination: 2}})
	expect.OK(t, c.Session("s4").SetReplyTo(b.Ctx, "hook"))
	_, err = c.Session("s5").Send(b.Ctx, turnstile.Message{ID: "m", Text: "m", ReplyTo: "hook"})
	full("before", err)
	_, err = c.Session("s4").Send(b.Ctx, turnstile.Message{ID: "m", Text: "m"})
	full("by its session's", err)

	// Workers count no more, and gateways go on delivering.
	counted := b.Redis.HGet(b.Ctx, rediskey.Waiting, "at").Val()
	for _, age := range []time.Duration{2 * time.Minute, -2 * time.Minute} {
		expect.OK(t, b.Redis.HSet(b.Ctx, rediskey.Waiting, "at", b.RedisTime().Add(-age).UnixMilli()).Err())
		expect.OK(t, submit(2, "s7", fmt.Sprint("m", age > 0), to("hook")))
	}
	expect.OK(t, b.Redis.HSet(b.Ctx, rediskey.Waiting, "at", counted).Err())
	expect.OK(t, b.Redis.Del(b.Ctx, rediskey.For("s7").Owed(), rediskey.For("s7").Deliveries()).Err())

	backlog, err := b.Client.Backlog(b.Ctx)
	expect.OK(t, err)
	expect.Equal(t, "counted", backlog.Destinations["hook"].Count, 3)
	expect.Equal(t, "nothing waits for its delivery", backlog.Destinations["hook"].Oldest, 0)

	for i := range 3 {
		b.Redis.Del(b.Ctx, rediskey.For(fmt.Sprint("s", i)).Deliveries())
		b.Redis.Del(b.Ctx, rediskey.For(fmt.Sprint("s", i)).Owed())
	}
	expect.OK(t, b.Redis.Del(b.Ctx, rediskey.Timer("trim")).Err())
	b.TrimAll()
	expect.OK(t, submit(3, "s6", "m", to("hook")))
}

// A sender's Redis user may write any count into its own sessions' keys. It counts for no more than
// they have, so it closes no destination to other senders.
func TestForgedDestinationCount(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	c := actors.NewClientWith(b.Redis, turnstile.ClientConfig{Limits: session.Limits{Destination: 100}})
	_, err := c.Session("forger").Send(b.Ctx, turnstile.Message{ID: "m", Text: "m", ReplyTo: "hook"})
	expect.OK(t, err)
	for count, most := range map[string]int64{"1000000000": 10, "-1000000000": 10, "99999999999999999999999": 10, "x": 10} {
		expect.OK(t, b.Redis.HSet(b.Ctx, rediskey.For("forger").Deliveries(), "n hook", count).Err())
		b.TrimAll()
		backlog, err := b.Client.Backlog(b.Ctx)
		expect.OK(t, err)
		if n := backlog.Destinations["hook"].Count; n < 0 || n > most {
			t.Errorf("%s counts as %d", count, n)
		}
		expect.OK(t, b.Redis.Del(b.Ctx, rediskey.Timer("trim")).Err())
		_, err = c.Session("another").Send(b.Ctx, turnstile.Message{Text: "m", ReplyTo: "hook"})
		expect.OK(t, err)
	}
}

// A hanging read of the counts delays no other sender.
func TestDestinationCapWhileItsReadHangs(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	c := actors.NewClientWith(b.Redis, turnstile.ClientConfig{Limits: session.Limits{Destination: 2}})
	reads, release := make(chan struct{}), make(chan struct{})
	b.Redis.AddHook(actors.Hook(func(cmds []redis.Cmder, send func() error) error {
		if cmds[0].Name() == "hmget" && cmds[0].Args()[1] == rediskey.Waiting {
			reads <- struct{}{}
			<-release
		}
		return send()
	}))
	submit := func(sessionKey string) <-chan error {
		done := make(chan error, 1)
		go func() {
			_, err := receipt.Input(b.Ctx, c.Session(sessionKey), turnstile.Message{ID: "m", Text: "m", ReplyTo: "hook"})
			done <- err
		}()
		return done
	}
	hangs := submit("s0")
	<-reads
	select {
	case err := <-submit("s1"):
		expect.OK(t, err)
	case <-time.After(expect.Patience):
		t.Error("the second message waits for the first one's read")
	}
	close(release)
	expect.OK(t, <-hangs)
}

// The counts include how long the oldest delivery has waited, for any size of a session's outbox.
func TestDestinationsAreCounted(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	stored := b.RedisTime().Add(-time.Hour).UnixMilli()
	for s, n := range map[string]int64{"large": 3000, "small": 2} {
		k := rediskey.For(s)
		expect.OK(t, b.Redis.ZAdd(b.Ctx, rediskey.Sessions, redis.Z{Score: 1, Member: s}).Err())
		p := b.Redis.Pipeline()
		for i := range n {
			sequence := fmt.Sprint(stored + i)
			p.ZAdd(b.Ctx, k.Outbox(), redis.Z{Member: "hook " + sequence})
			p.HSet(b.Ctx, k.Deliveries(), sequence, "{}")
		}
		p.HSet(b.Ctx, k.Deliveries(), "n hook", n, "n other", 1)
		_, err := p.Exec(b.Ctx)
		expect.OK(t, err)
	}
	b.TrimAll()
	backlog, err := b.Client.Backlog(b.Ctx)
	expect.OK(t, err)
	expect.Equal(t, "counted", backlog.Destinations["hook"].Count, 3002)
	expect.Equal(t, "of the other one", backlog.Destinations["other"].Count, 2)
	if age := backlog.Destinations["hook"].Oldest; age < time.Hour || age > time.Hour+time.Minute {
		t.Errorf("the oldest has waited for %s", age)
	}
}
