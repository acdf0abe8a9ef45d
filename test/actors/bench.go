package actors

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/internal/protocol"
	"turnstile/internal/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/acl"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

func Recent(t testing.TB, what string, at time.Time) {
	t.Helper()
	if d := time.Since(at); d < -2*time.Second || d > time.Minute {
		t.Errorf("%s: %s", what, at)
	}
}

func (b *Bench) Dead(sessionKey string) (list []string) {
	b.Helper()
	for d, err := range b.Client.DeadLetters(b.Ctx, sessionKey) {
		expect.OK(b, err)
		if d.Session != sessionKey || d.Age < 0 || d.Age > time.Minute || time.Since(d.At).Abs() > time.Minute {
			b.Errorf("%+v", d)
		}
		list = append(list, fmt.Sprintf("%s %s %q %s", d.ID, d.Outcome.Status, d.Outcome.Error, d.Text))
	}
	slices.Sort(list) // the clock decides which of them are of one second
	return list
}

func EventsBytes(n int) Setup { return func(c *protocol.Config) { c.EventsBytes = n } }

// Key is the session of most tests.
const Key = "agent:main:telegram:dm:42"

// Bench is a sender, a worker and the database that they share.
type Bench struct {
	*testing.T
	Ctx    context.Context
	Redis  redis.UniversalClient
	Client *Client
	Worker *Consumer
	Keys   rediskey.Session
}

// Setup changes the configuration of a bench's worker.
type Setup func(*protocol.Config)

func NewBench(t *testing.T, changes ...Setup) *Bench {
	t.Helper()
	b := BenchOn(t, redistest.New(t), changes...)
	b.Client = NewClient(acl.Client(t, acl.Sender))
	b.Worker = NewWorker(t, acl.Client(t, acl.Worker), "one", changes...)
	return b
}

func BenchOn(t *testing.T, rdb redis.UniversalClient, changes ...Setup) *Bench {
	t.Helper()
	return &Bench{
		T: t, Ctx: t.Context(), Redis: rdb, Client: NewClient(rdb),
		Worker: NewWorker(t, rdb, "one", changes...), Keys: rediskey.For(Key),
	}
}

// NewWorker makes a consumer. Its name has the test's name, because all databases of a server share
// the channels.
func NewWorker(t *testing.T, rdb redis.UniversalClient, name string, changes ...Setup) *Consumer {
	t.Helper()
	cfg := protocol.Config{Worker: t.Name() + "/" + name, Retention: time.Hour, SentinelTTL: time.Minute}
	for _, change := range changes {
		change(&cfg)
	}
	c, err := NewConsumer(rdb, cfg)
	expect.OK(t, err)
	return c
}

var ErrFlaky = errors.New("flaky")

// Say submits a message whose id is its text.
func (b *Bench) Say(text string, mode ...session.Mode) turnstile.Receipt {
	b.Helper()
	m := session.Message{ID: text, Text: text}
	if len(mode) > 0 {
		m.Mode = mode[0]
	}
	r, err := b.Client.Submit(b.Ctx, Key, m)
	expect.OK(b, err)
	return r
}

func (b *Bench) SayAll(texts ...string) {
	b.Helper()
	for _, text := range texts {
		b.Say(text)
	}
}

// Claim claims the session, which must be ready.
func (b *Bench) Claim() *protocol.Claim {
	b.Helper()
	holds, err := b.Worker.Claim(b.Ctx, []string{Key})
	expect.OK(b, err)
	if len(holds) != 1 {
		b.Fatalf("the session was not claimed: %s", b.Dump())
	}
	return holds[0]
}

// ClaimNothing claims the session, which must not be ready.
func (b *Bench) ClaimNothing(why string) {
	b.Helper()
	holds, err := b.Worker.Claim(b.Ctx, []string{Key})
	expect.OK(b, err)
	if len(holds) != 0 {
		b.Fatalf("claimed message %q although %s", holds[0].Turn().Message.ID, why)
	}
}

// Start claims and promotes.
func (b *Bench) Start() *protocol.Claim {
	b.Helper()
	h := b.Claim()
	expect.OK(b, h.Promote(b.Ctx))
	return h
}

// Renew renews the claim, which is a sign of life.
func (b *Bench) Renew(h *protocol.Claim) {
	b.Helper()
	expect.OK(b, b.Worker.Renew(b.Ctx, []*protocol.Claim{h})[0].Err)
}

// Finish ends the turn with success.
func (b *Bench) Finish(h *protocol.Claim) (more bool) {
	b.Helper()
	more, err := h.Finish(b.Ctx, b.Done(h))
	expect.OK(b, err)
	return more
}

// Done is the end of a turn with success: an entry for each message, and one for the reply to the
// first.
func (b *Bench) Done(h *protocol.Claim) protocol.End {
	turn := h.Turn()
	end := protocol.End{Status: session.StatusDone, Reply: "re: " + turn.Message.Text, Told: len(turn.Dropped)}
	for _, m := range turn.Messages() {
		end.Entries = append(end.Entries, session.Entry{Role: session.RoleUser, Text: m.Message.Text, Message: m.Message.ID, Turn: turn.ID})
	}
	end.Entries = append(end.Entries, session.Entry{Role: session.RoleAssistant, Text: end.Reply, Turn: turn.ID})
	return end
}

// Drain runs all messages and returns their ids.
func (b *Bench) Drain() (ids []string) {
	b.Helper()
	for {
		holds, err := b.Worker.Claim(b.Ctx, []string{Key})
		expect.OK(b, err)
		if len(holds) == 0 {
			return ids
		}
		for more := true; more; {
			ids = append(ids, holds[0].Turn().Message.ID)
			more = b.Finish(holds[0])
		}
	}
}

// Die removes the sentinel, as its TTL does after a worker's death.
func (b *Bench) Die() { expect.OK(b, b.Redis.Del(b.Ctx, b.Keys.Sentinel()).Err()) }

func (b *Bench) Task(id string) string { return rediskey.TaskID(Key, id) }

// Waiting returns the ids in line, the next one first.
func (b *Bench) Waiting() []string {
	b.Helper()
	ids, err := b.Redis.LRange(b.Ctx, b.Keys.Pending(), 0, -1).Result()
	expect.OK(b, err)
	slices.Reverse(ids)
	for i := range ids {
		ids[i] = strings.TrimPrefix(ids[i], rediskey.IDPrefix(Key))
	}
	return ids
}

func (b *Bench) State(id string) string {
	return b.Redis.HGet(b.Ctx, b.Keys.Task(b.Task(id)), "state").Val()
}

func (b *Bench) Info() session.Info {
	b.Helper()
	s, err := b.Client.Session(b.Ctx, Key)
	expect.OK(b, err)
	return s
}

// Outcome returns the outcome of a message, which must have ended.
func (b *Bench) Outcome(id string) session.Outcome {
	b.Helper()
	o, ok, err := b.Client.Result(b.Ctx, Key, id)
	expect.OK(b, err)
	if !ok {
		b.Errorf("message %s has not ended, it is %q", id, b.State(id))
	}
	return o
}

// Transcript returns the texts of the session id's entries.
func (b *Bench) Transcript(sessionID string) (texts []string) {
	b.Helper()
	entries, err := b.Client.Transcript(b.Ctx, Key, sessionID)
	expect.OK(b, err)
	for _, e := range entries {
		texts = append(texts, e.Text)
	}
	return texts
}

// Inspector returns asynq's own, on the same client.
func (b *Bench) Inspector() *asynq.Inspector { return asynq.NewInspectorFromRedisClient(b.Redis) }

// Reap runs the job without the pause between two runs.
func (b *Bench) Reap() (recovered int) {
	b.Helper()
	b.Redis.Del(b.Ctx, rediskey.Timer("reap"))
	n, _, err := b.Worker.Reap(b.Ctx)
	expect.OK(b, err)
	return n
}

func (b *Bench) Due() {
	b.Helper()
	b.Redis.Del(b.Ctx, rediskey.Timer("due"))
	_, err := b.Worker.Due(b.Ctx)
	expect.OK(b, err)
}

// TrimAll archives what is beyond the caps, and counts the waiting messages.
func (b *Bench) TrimAll() {
	b.Helper()
	_, err := b.Worker.Trim(b.Ctx)
	expect.OK(b, err)
}

func (b *Bench) Sweep() (woken int) {
	b.Helper()
	b.Redis.Del(b.Ctx, rediskey.Timer("sweep"))
	n, _, err := b.Worker.Sweep(b.Ctx, time.Minute)
	expect.OK(b, err)
	return n
}

func (b *Bench) IsIn(index, member string) bool {
	return b.Redis.ZScore(b.Ctx, index, member).Err() == nil
}

// Overdue makes every member of an index due.
func (b *Bench) Overdue(index string) {
	for _, m := range b.Redis.ZRange(b.Ctx, index, 0, -1).Val() {
		b.Redis.ZAdd(b.Ctx, index, redis.Z{Score: 1, Member: m})
	}
}

// NewBenchWithCap makes a bench whose sender and worker have this cap of the line.
func NewBenchWithCap(t *testing.T, n int, changes ...Setup) *Bench {
	t.Helper()
	b := NewBench(t, append(changes, func(c *protocol.Config) { c.LineCap, c.TurnMessages = n, 1 })...)
	b.Client = NewClientWith(b.Redis, turnstile.ClientConfig{LineCap: n})
	return b
}

// Pass waits until Redis' clock has advanced.
func (b *Bench) Pass(d time.Duration) {
	b.Helper()
	end := b.RedisTime().Add(d)
	expect.Soon(b, "Redis' clock", func() bool { return b.RedisTime().After(end) })
}

func (b *Bench) RedisTime() time.Time {
	b.Helper()
	at, err := b.Redis.Time(b.Ctx).Result()
	expect.OK(b, err)
	return at
}

// OnceAndTwice plays a story as it is, and with every script and index command sent twice, as after
// a lost reply.
func OnceAndTwice(t *testing.T, story func(t *testing.T, b *Bench), changes ...Setup) {
	t.Helper()
	t.Run("once", func(t *testing.T) {
		t.Parallel()
		story(t, NewBench(t, changes...))
	})
	t.Run("each command twice", func(t *testing.T) {
		t.Parallel()
		b := NewBench(t, changes...)
		faults := &redistest.Faults{}
		faults.RunTwice(redistest.Named("evalsha", "eval", "zadd", "sadd"), -1)
		b.Redis.AddHook(faults)
		story(t, b)
	})
}

func Line(s session.QueueSettings) Setup { return func(c *protocol.Config) { c.Line = s } }

// MessageIDs returns the ids of a turn's messages.
func MessageIDs(h *protocol.Claim) (ids []string) {
	for _, m := range h.Turn().Messages() {
		ids = append(ids, m.Message.ID)
	}
	return ids
}

// BareRedis is a client of the same database whose commands no hook sees.
func (b *Bench) BareRedis() *redis.Client {
	b.Helper()
	rdb := redis.NewClient(b.Redis.(*redis.Client).Options())
	b.Cleanup(func() { rdb.Close() })
	return rdb
}
