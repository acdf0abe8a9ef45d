package protocol_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"turnstile"
	sq "turnstile/internal/protocol"
	"turnstile/internal/redisconn"
	"turnstile/internal/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/acl"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

func TestMain(m *testing.M) {
	redisconn.LogTo(slog.New(slog.DiscardHandler)) // go-redis tells of each failover
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(redistest.Dialing()); err != nil {
			fmt.Fprintln(os.Stderr, "goroutines left behind:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// variantsOf are a script and its plain variant, if it has one.
func variantsOf(name string) []*redis.Script {
	if plain, ok := sq.Scripts[name+"_fast"]; ok {
		return []*redis.Script{sq.Scripts[name], plain}
	}
	if sq.Scripts[name] == nil {
		panic("no script " + name)
	}
	return []*redis.Script{sq.Scripts[name]}
}

// key is the session of most tests.
const key = "agent:main:telegram:dm:42"

// bench is a sender, a worker and what they share, on a database of their own.
type bench struct {
	*testing.T
	ctx    context.Context
	rdb    redis.UniversalClient
	client *actors.Client
	c      *actors.Consumer
	k      rediskey.Session
}

// setup changes a bench's configuration.
type setup func(*sq.Config)

func newBench(t *testing.T, changes ...setup) *bench {
	t.Helper()
	b := benchOn(t, redistest.New(t), changes...)
	b.client = actors.NewClient(acl.Client(t, acl.Sender))
	b.c = newWorker(t, acl.Client(t, acl.Worker), "one", changes...)
	return b
}

func benchOn(t *testing.T, rdb redis.UniversalClient, changes ...setup) *bench {
	t.Helper()
	return &bench{
		T: t, ctx: t.Context(), rdb: rdb, client: actors.NewClient(rdb),
		c: newWorker(t, rdb, "one", changes...), k: rediskey.For(key),
	}
}

// newWorker makes a consumer. Channels are common to all databases of a server,
// hence the test's name in the worker's.
func newWorker(t *testing.T, rdb redis.UniversalClient, name string, changes ...setup) *actors.Consumer {
	t.Helper()
	cfg := sq.Config{Worker: t.Name() + "/" + name, Retention: time.Hour, SentinelTTL: time.Minute}
	for _, change := range changes {
		change(&cfg)
	}
	c, err := actors.NewConsumer(rdb, cfg)
	expect.OK(t, err)
	return c
}

var errFlaky = errors.New("flaky")

// say submits a message whose id is its text.
func (b *bench) say(text string, mode ...session.Mode) turnstile.Receipt {
	b.Helper()
	m := session.Message{ID: text, Text: text}
	if len(mode) > 0 {
		m.Mode = mode[0]
	}
	r, err := b.client.Submit(b.ctx, key, m)
	expect.OK(b, err)
	return r
}

func (b *bench) sayAll(texts ...string) {
	b.Helper()
	for _, text := range texts {
		b.say(text)
	}
}

// claim claims the session; it has to be there.
func (b *bench) claim() *sq.Claim {
	b.Helper()
	holds, err := b.c.Claim(b.ctx, []string{key})
	expect.OK(b, err)
	if len(holds) != 1 {
		b.Fatalf("the session was not claimed: %s", b.dump())
	}
	return holds[0]
}

// claimNothing claims the session, which must not be there.
func (b *bench) claimNothing(why string) {
	b.Helper()
	holds, err := b.c.Claim(b.ctx, []string{key})
	expect.OK(b, err)
	if len(holds) != 0 {
		b.Fatalf("claimed message %q although %s", holds[0].Turn().Message.ID, why)
	}
}

// start claims and promotes.
func (b *bench) start() *sq.Claim {
	b.Helper()
	h := b.claim()
	expect.OK(b, h.Promote(b.ctx))
	return h
}

// renew is the owner's first sign of life, at the latest.
func (b *bench) renew(h *sq.Claim) {
	b.Helper()
	expect.OK(b, b.c.Renew(b.ctx, []*sq.Claim{h})[0].Err)
}

// finish ends the turn well.
func (b *bench) finish(h *sq.Claim) (more bool) {
	b.Helper()
	more, err := h.Finish(b.ctx, b.done(h))
	expect.OK(b, err)
	return more
}

// done is the end of a turn that went well: an entry for each of its messages, and
// one for the reply to the first.
func (b *bench) done(h *sq.Claim) sq.End {
	turn := h.Turn()
	end := sq.End{Status: session.StatusDone, Reply: "re: " + turn.Message.Text, Told: len(turn.Dropped)}
	for _, m := range turn.Messages() {
		end.Entries = append(end.Entries, session.Entry{Role: session.RoleUser, Text: m.Message.Text, Message: m.Message.ID, Turn: turn.ID})
	}
	end.Entries = append(end.Entries, session.Entry{Role: session.RoleAssistant, Text: end.Reply, Turn: turn.ID})
	return end
}

// drain runs all that can be run and answers the messages' ids.
func (b *bench) drain() (ids []string) {
	b.Helper()
	for {
		holds, err := b.c.Claim(b.ctx, []string{key})
		expect.OK(b, err)
		if len(holds) == 0 {
			return ids
		}
		for more := true; more; {
			ids = append(ids, holds[0].Turn().Message.ID)
			more = b.finish(holds[0])
		}
	}
}

// die is a worker's death, TTL included.
func (b *bench) die() { expect.OK(b, b.rdb.Del(b.ctx, b.k.Sentinel()).Err()) }

func (b *bench) task(id string) string { return rediskey.TaskID(key, id) }

// waiting are the ids in pending, the next one first.
func (b *bench) waiting() []string {
	b.Helper()
	ids, err := b.rdb.LRange(b.ctx, b.k.Pending(), 0, -1).Result()
	expect.OK(b, err)
	slices.Reverse(ids)
	for i := range ids {
		ids[i] = strings.TrimPrefix(ids[i], rediskey.IDPrefix(key))
	}
	return ids
}

func (b *bench) state(id string) string {
	return b.rdb.HGet(b.ctx, b.k.Task(b.task(id)), "state").Val()
}

func (b *bench) info() session.Info {
	b.Helper()
	s, err := b.client.Session(b.ctx, key)
	expect.OK(b, err)
	return s
}

// outcome is a message's end, which must have come.
func (b *bench) outcome(id string) session.Outcome {
	b.Helper()
	o, ok, err := b.client.Result(b.ctx, key, id)
	expect.OK(b, err)
	if !ok {
		b.Errorf("message %s has not ended, it is %q", id, b.state(id))
	}
	return o
}

// transcript are the texts of the session id's entries.
func (b *bench) transcript(sessionID string) (texts []string) {
	b.Helper()
	entries, err := b.client.Transcript(b.ctx, key, sessionID)
	expect.OK(b, err)
	for _, e := range entries {
		texts = append(texts, e.Text)
	}
	return texts
}

// inspector is asynq's own, on the same client.
func (b *bench) inspector() *asynq.Inspector { return asynq.NewInspectorFromRedisClient(b.rdb) }

// reap runs a job of a timer without the pause between two runs.
func (b *bench) reap() (recovered int) {
	b.Helper()
	b.rdb.Del(b.ctx, rediskey.Timer("reap"))
	n, _, err := b.c.Reap(b.ctx)
	expect.OK(b, err)
	return n
}

func (b *bench) due() {
	b.Helper()
	b.rdb.Del(b.ctx, rediskey.Timer("due"))
	_, err := b.c.Due(b.ctx)
	expect.OK(b, err)
}

// trimAll archives what is beyond the lines' caps, and counts what waits.
func (b *bench) trimAll() {
	b.Helper()
	_, err := b.c.Trim(b.ctx)
	expect.OK(b, err)
}

func (b *bench) sweep() (woken int) {
	b.Helper()
	b.rdb.Del(b.ctx, rediskey.Timer("sweep"))
	n, _, err := b.c.Sweep(b.ctx, time.Minute)
	expect.OK(b, err)
	return n
}

func (b *bench) isIn(index, member string) bool {
	return b.rdb.ZScore(b.ctx, index, member).Err() == nil
}

// overdue makes every member of an index due.
func (b *bench) overdue(index string) {
	for _, m := range b.rdb.ZRange(b.ctx, index, 0, -1).Val() {
		b.rdb.ZAdd(b.ctx, index, redis.Z{Score: 1, Member: m})
	}
}

func (b *bench) dump() string { b.Helper(); return dump(b.T, b.rdb) }

// dump is the whole database as text: each key with type, content and whether it
// expires. A sentinel's remaining time and the jobs' timers are left out.
func dump(t testing.TB, rdb redis.UniversalClient) string {
	t.Helper()
	ctx := context.Background()
	names, err := rdb.Keys(ctx, "*").Result()
	expect.OK(t, err)
	sort.Strings(names)
	var out strings.Builder
	for _, name := range names {
		if strings.HasPrefix(name, rediskey.Timer("")) {
			continue
		}
		kind := rdb.Type(ctx, name).Val()
		expires := rdb.PTTL(ctx, name).Val() > 0
		fmt.Fprintf(&out, "%s %s expires=%v %s\n", name, kind, expires, content(ctx, rdb, name, kind))
	}
	return out.String()
}

func content(ctx context.Context, rdb redis.UniversalClient, name, kind string) string {
	switch kind {
	case "string":
		return fmt.Sprintf("%q", rdb.Get(ctx, name).Val())
	case "list":
		return fmt.Sprintf("%q", rdb.LRange(ctx, name, 0, -1).Val())
	case "set":
		members := rdb.SMembers(ctx, name).Val()
		sort.Strings(members)
		return fmt.Sprintf("%q", members)
	case "zset":
		return fmt.Sprintf("%v", rdb.ZRangeWithScores(ctx, name, 0, -1).Val())
	case "stream":
		return fmt.Sprintf("%v", rdb.XRange(ctx, name, "-", "+").Val())
	}
	fields := rdb.HGetAll(ctx, name).Val()
	lines := make([]string, 0, len(fields))
	for f, v := range fields {
		lines = append(lines, fmt.Sprintf("%s=%q", f, v))
	}
	sort.Strings(lines)
	return strings.Join(lines, " ")
}

// same compares two dumps line by line.
func same(t testing.TB, what, before, after string) {
	t.Helper()
	if before == after {
		return
	}
	var diff strings.Builder
	old, now := strings.Split(before, "\n"), strings.Split(after, "\n")
	for _, line := range old {
		if !slices.Contains(now, line) {
			diff.WriteString("  - " + line + "\n")
		}
	}
	for _, line := range now {
		if !slices.Contains(old, line) {
			diff.WriteString("  + " + line + "\n")
		}
	}
	t.Errorf("%s changed the database:\n%s", what, diff.String())
}
