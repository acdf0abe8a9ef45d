package turnstile_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/internal/chat/receipt"
	"turnstile/internal/protocol"
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
	send := func(most int, sessionKey, id string, o ...actors.Option) error {
		_, err := actors.NewClientWith(b.Redis, turnstile.ClientConfig{Limits: session.Limits{Destination: most}}).Session(sessionKey).Send(b.Ctx, actors.With(turnstile.Message{ID: id, Text: id}, o...))
		return err
	}
	to := func(name string) actors.Option { return actors.ReplyTo(wire.Route{To: name}) }
	for i := range 3 { // more than the cap: not counted yet
		expect.OK(t, send(2, fmt.Sprint("s", i), "m", to("hook")))
	}
	b.TrimAll()
	full := func(why string, err error) {
		t.Helper()
		if !errors.Is(err, session.ErrOutboxFull) {
			t.Errorf("%s: %v", why, err)
		}
	}
	full("by its own route", send(2, "s3", "m", to("hook")))
	byDefault := actors.NewClientWith(b.Redis, turnstile.ClientConfig{Limits: session.Limits{Destination: 2}, DefaultReplyTo: func(string) string { return "hook" }})
	_, err := byDefault.Session("s3").Send(b.Ctx, turnstile.Message{ID: "m", Text: "m"})
	full("by the sender's default", err)
	expect.Equal(t, "stored", b.Redis.Exists(b.Ctx, rediskey.For("s3").Pending()).Val(), 0)
	expect.OK(t, send(2, "s0", "m", to("hook"))) // a repetition
	expect.OK(t, send(2, "s3", "other", to("another")))
	expect.OK(t, send(2, "s3", "none"))
	expect.OK(t, send(4, "s3", "higher", to("hook")))
	expect.OK(t, send(-1, "s3", "unbounded", to("hook")))

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
		expect.OK(t, send(2, "s7", fmt.Sprint("m", age > 0), to("hook")))
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
	expect.OK(t, send(3, "s6", "m", to("hook")))
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
	send := func(sessionKey string) <-chan error {
		done := make(chan error, 1)
		go func() {
			_, err := receipt.Input(b.Ctx, c.Session(sessionKey), turnstile.Message{ID: "m", Text: "m", ReplyTo: "hook"})
			done <- err
		}()
		return done
	}
	hangs := send("s0")
	<-reads
	select {
	case err := <-send("s1"):
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

// The cap holds while a turn runs, also for messages that go first. The receipt's error names it.
func TestLineCapOfARunningSession(t *testing.T) {
	t.Parallel()
	b := actors.NewBenchWithCap(t, 2)
	b.Say("a")
	h := b.Start()
	b.SayAll("b", "c")
	for _, mode := range []session.Mode{session.ModeQueue, session.ModeCollect, session.ModeSteer, session.ModeInterrupt, session.ModeRollback} {
		r := b.Say("over", mode)
		expect.Equal(t, string(mode), string(r.Status)+" "+r.Reason, "refused line")
		expect.Equal(t, "as an error", errors.Is(r.Err, session.ErrQueueFull), true)
	}
	if r := b.Worker.Renew(b.Ctx, []*protocol.Claim{h})[0]; r.Requested != nil {
		t.Errorf("requested of the turn: %v", r.Requested)
	}
	expect.Equal(t, "a rejected one", b.Say("r", session.ModeReject).Reason, "busy")
	b.Finish(h)
	expect.Equal(t, "there is room again", b.Say("d").Status, receipt.Queued)
	expect.Equal(t, "no error", b.Say("d").Err, nil)
}

// A drop policy makes room for the newest message.
func TestLineCapBesideADropPolicy(t *testing.T) {
	t.Parallel()
	b := actors.NewBenchWithCap(t, 2, func(c *protocol.Config) { c.Line.Cap, c.Line.Drop = 2, "old" })
	b.Say("a")
	b.Start()
	b.SayAll("b", "c", "d")
	expect.List(t, "the line", b.Waiting(), "c", "d")
}

// Delayed messages count, and may fill half of the queue.
func TestDelayedMessagesCount(t *testing.T) {
	t.Parallel()
	b := actors.NewBenchWithCap(t, 4)
	delayed := func(id string) string {
		r, err := receipt.Input(b.Ctx, b.Client.Session(actors.Key), turnstile.Message{ID: id, Text: id, Delay: time.Hour})
		expect.OK(t, err)
		return string(r.Status) + " " + r.Reason
	}
	expect.Equal(t, "first", delayed("d1"), "scheduled ")
	expect.Equal(t, "second", delayed("d2"), "scheduled ")
	expect.Equal(t, "third", delayed("d3"), "refused line")
	expect.Equal(t, "stored", b.State("d3"), "")
	expect.Equal(t, "waiting", b.Redis.ZCard(b.Ctx, b.Keys.Scheduled()).Val(), 2)
	b.SayAll("a", "b")
	expect.Equal(t, "a third", b.Say("c").Reason, "line")
	b.Backdate("d1")
	expect.Equal(t, "once it has joined", b.Say("c").Reason, "line")
}

// A repeated accept adds no message: it has the first one's result.
func TestLineCapOfARepetition(t *testing.T) {
	t.Parallel()
	actors.OnceAndTwice(t, func(t *testing.T, b *actors.Bench) {
		b.Client = actors.NewClientWith(b.Redis, turnstile.ClientConfig{Limits: session.Limits{Queue: 2}})
		expect.Equal(t, "first", b.Say("a").Status, receipt.Accepted)
		expect.Equal(t, "second", b.Say("b").Status, receipt.Accepted)
		expect.Equal(t, "third", b.Say("c").Reason, "line")
		expect.Equal(t, "delayed", b.Say("c").Reason, "line")
		expect.List(t, "the line", b.Waiting(), "a", "b")
	})
}

// An idle session's queue ends at 10,000: further messages are refused, and nothing is stored.
func TestSendIntoAFullLine(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Flood(9_999)
	expect.Equal(t, "the last", b.Say("last").Status, receipt.Accepted)
	before := b.Redis.DBSize(b.Ctx).Val()
	r := b.Say("over")
	expect.Equal(t, "one more", string(r.Status)+" "+r.Reason, "refused line")
	expect.Equal(t, "stored", b.State("over"), "")
	expect.Equal(t, "in the line", b.Redis.LLen(b.Ctx, b.Keys.Pending()).Val(), 10_000)
	expect.Equal(t, "keys", b.Redis.DBSize(b.Ctx).Val()-before, 0)
	expect.Equal(t, "what is in stays", b.Say("last").Status, receipt.Duplicate)
}

// capped is a bench with a cap of n messages over all sessions.
func capped(t *testing.T, n int) *actors.Bench {
	t.Helper()
	b := actors.NewBench(t)
	b.Client = actors.NewClientWith(b.Redis, turnstile.ClientConfig{Limits: session.Limits{AllQueues: n}})
	return b
}

// statusOf sends a message to another session.
func statusOf(b *actors.Bench, sessionKey, id string) string {
	b.Helper()
	r, err := receipt.Input(b.Ctx, b.Client.Session(sessionKey), turnstile.Message{ID: id, Text: id})
	expect.OK(b, err)
	return string(r.Status) + " " + r.Reason
}

// Messages may wait in all sessions up to the cap, as the workers have counted them. One more is
// refused and leaves nothing.
func TestMessagesCap(t *testing.T) {
	t.Parallel()
	b := capped(t, 3)
	for i := range 4 { // before the first count, each message counts as it comes
		want := map[bool]string{true: "accepted ", false: "refused messages"}[i < 3]
		expect.Equal(t, fmt.Sprint(i), statusOf(b, fmt.Sprint("s", i), "a"), want)
	}
	expect.Equal(t, "stored", b.Redis.Exists(b.Ctx, rediskey.For("s3").Pending(), rediskey.For("s3").Task(rediskey.TaskID("s3", "a"))).Val(), 0)
	expect.Equal(t, "known", b.IsIn(rediskey.Sessions, "s3"), false)
	r, err := receipt.Input(b.Ctx, b.Client.Session("s3"), turnstile.Message{Text: "a"})
	expect.OK(t, err)
	expect.Equal(t, "as an error", errors.Is(r.Err, session.ErrAllQueuesFull), true)

	expect.Equal(t, "a repetition", statusOf(b, "s0", "a"), "duplicate ")
	b.TrimAll()
	expect.Equal(t, "counted", b.Redis.HGet(b.Ctx, rediskey.Waiting, "count").Val(), "3")
	expect.Equal(t, "after the sweep", statusOf(b, "s3", "a"), "refused messages")

	// A session with an owner can still be steered and interrupted.
	claims, err := b.Worker.Claim(b.Ctx, []string{"s0"})
	expect.OK(t, err)
	expect.Equal(t, "a follow-up", statusOf(b, "s0", "b"), "queued ")
	_, err = claims[0].Finish(b.Ctx, protocol.End{Status: session.StatusDone})
	expect.OK(t, err)
	_, err = claims[0].Finish(b.Ctx, protocol.End{Status: session.StatusDone})
	expect.OK(t, err)
	expect.OK(t, b.Redis.Del(b.Ctx, rediskey.Timer("sweep")).Err())
	b.TrimAll()
	expect.Equal(t, "counted again", b.Redis.HGet(b.Ctx, rediskey.Waiting, "count").Val(), "2")
	expect.Equal(t, "there is room", statusOf(b, "s3", "a"), "accepted ")

	// The sweep's count holds until no worker sweeps any more.
	expect.Equal(t, "more, before the next count", statusOf(b, "s4", "a"), "accepted ")
	expect.OK(t, b.Redis.HSet(b.Ctx, rediskey.Waiting, "at", b.RedisTime().Add(-2*time.Minute).UnixMilli()).Err())
	expect.Equal(t, "without a worker", statusOf(b, "s5", "a"), "accepted ")
	expect.Equal(t, "one too many", statusOf(b, "s6", "a"), "refused messages")
}

// A sender can write the count. One that cannot be read refuses nothing, and the workers' next count
// replaces it.
func TestMessagesCapHeals(t *testing.T) {
	t.Parallel()
	for name, poison := range map[string][]any{
		"another type":   {"SET", rediskey.Waiting, "x"},
		"a list":         {"RPUSH", rediskey.Waiting, "x"},
		"no numbers":     {"HSET", rediskey.Waiting, "count", "x", "at", "y", "owing", "z"},
		"of the future":  {"HSET", rediskey.Waiting, "count", "0", "at", "9000000000000000"},
		"a number's end": {"HSET", rediskey.Waiting, "count", "nan", "at", "inf"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := capped(t, 3)
			expect.OK(t, b.Redis.Do(b.Ctx, poison...).Err())
			for _, s := range []string{"s0", "s1", "s2"} {
				expect.Equal(t, "with it", statusOf(b, s, "a"), "accepted ")
			}
			_, err := b.Client.Backlog(b.Ctx)
			expect.OK(t, err)
			b.TrimAll()
			expect.Equal(t, "counted", b.Redis.HGet(b.Ctx, rediskey.Waiting, "count").Val(), "3")
			expect.Equal(t, "after the count", statusOf(b, "s3", "a"), "refused messages")
		})
	}
}

// Without a cap, Send does not read the count.
func TestMessagesCapReadsOnlyIfItIsSet(t *testing.T) {
	t.Parallel()
	for set, n := range map[int]int64{0: 2, 5: 3} {
		b := capped(t, set)
		b.Say(fmt.Sprint("first", set)) // for the clock and the scripts
		trips := &roundTrips{}
		b.Redis.AddHook(trips)
		b.Say(fmt.Sprint("second", set))
		expect.Equal(t, fmt.Sprint("round trips with a cap of ", set), trips.n.Load(), n)
	}
}
