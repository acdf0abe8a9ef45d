package acl_test

import (
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"turnstile"

	"github.com/redis/go-redis/v9"

	sq "turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/redis/redisconn"
	"turnstile/pkg/session"
	"turnstile/test/acl"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// as opens a client of a server as one of the page's users.
func as(t *testing.T, server *redistest.Server, user string) redis.UniversalClient {
	t.Helper()
	rdb, err := redisconn.Open(acl.URL(t, server.URL(), user))
	expect.OK(t, err)
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// consumer is a worker's consumer, with a lease that lasts for a test.
func consumer(t *testing.T, server *redistest.Server) *actors.Consumer {
	t.Helper()
	c, err := actors.NewConsumer(as(t, server, acl.Worker), sq.Config{Worker: "w", Retention: time.Hour, SentinelTTL: time.Minute})
	expect.OK(t, err)
	return c
}

// refusal matches the errors of Redis about commands that ACL rules refuse: outside scripts, in
// scripts of 7.0, and of 8.0.
var refusal = regexp.MustCompile("^NOPERM |The user executing the script can't|ACL failure in script")

// refused checks that the ACL rules refuse a user's command.
func refused(t *testing.T, rdb redis.UniversalClient, args ...any) {
	t.Helper()
	err := rdb.Do(t.Context(), args...).Err()
	if err == nil || !refusal.MatchString(err.Error()) {
		t.Errorf("%v: %v, want NOPERM", args, err)
	}
}

// Only the default user administers the server, only the users that must see the names of others'
// keys, and the read-only dashboard writes nothing.
func TestWhatUsersMayNotDo(t *testing.T) {
	t.Parallel()
	server := acl.Server(t)
	never := [][]any{
		{"FLUSHALL"}, {"FLUSHDB"}, {"CONFIG", "GET", "requirepass"}, {"CONFIG", "SET", "dir", "/tmp"}, {"KEYS", "*"}, {"RANDOMKEY"},
		{"ACL", "LIST"}, {"ACL", "WHOAMI"}, {"SHUTDOWN"}, {"DEBUG", "SLEEP", "0"}, {"MONITOR"}, {"CLIENT", "LIST"}, {"CLIENT", "KILL", "TYPE", "normal"},
		{"SCRIPT", "FLUSH"}, {"SCRIPT", "KILL"}, {"FUNCTION", "LIST"}, {"MODULE", "LIST"}, {"REPLICAOF", "NO", "ONE"}, {"SAVE"}, {"SWAPDB", "0", "1"},
		{"GET", "somebody:else"}, {"SET", "somebody:else", "x"}, {"EVAL", "return redis.call('GET', KEYS[1])", 1, "somebody:else"},
		{"EVAL", "return redis.call('GET', 'somebody:else')", 0}, {"EVAL", "return redis.call('FLUSHALL')", 0},
		{"PUBLISH", "somebody:else", "x"},
	}
	index := [][]any{
		{"DEL", rediskey.Ready}, {"ZREM", rediskey.Owned, "s"}, {"ZRANGE", rediskey.Sessions, 0, -1}, {"SREM", rediskey.AllQueues, "s"},
		{"SMEMBERS", rediskey.AllQueues}, {"SSCAN", rediskey.AllQueues, 0}, {"EVAL", "return redis.call('DEL', KEYS[1])", 1, rediskey.Due},
	}
	index = append(index, [][]any{
		{"SET", rediskey.Waiting, "x"}, {"DEL", rediskey.Waiting}, {"HSET", rediskey.Waiting, "count", 0}, {"EXPIRE", rediskey.Waiting, 1},
		{"EVAL", "return redis.call('SET', KEYS[1], 'x')", 1, rediskey.Waiting}, {"RENAMENX", rediskey.For(acl.Tenant + "s").Record(), rediskey.Waiting},
	}...)
	scan, cancel := []any{"SCAN", 0}, []any{"PUBLISH", rediskey.AsynqCancel, "task"}
	for user, further := range map[string][][]any{
		acl.Worker:       nil,
		acl.Operator:     {cancel},
		acl.Sender:       append(slices.Clone(index), scan, cancel, []any{"SUBSCRIBE", rediskey.Signal("w")}),
		acl.TenantSender: append(slices.Clone(index), scan, cancel, []any{"SUBSCRIBE", rediskey.Signal("w")}),
		acl.Dashboard: {
			scan, cancel, {"DEL", rediskey.For("s").Pending()}, {"HSET", rediskey.For("s").Task("t"), "msg", "x"}, {"SREM", rediskey.AllQueues, "s"},
			{"EVAL", "return redis.call('LPUSH', KEYS[1], 'x')", 1, rediskey.For("s").Pending()}, {"GET", rediskey.For("s").State()},
			{"LRANGE", rediskey.For("s").Transcript("x"), 0, -1}, {"ZADD", rediskey.Ready, 1, "s"},
		},
		acl.DashboardWrite: {scan, {"GET", rediskey.For("s").State()}, {"LRANGE", rediskey.For("s").Transcript("x"), 0, -1}, {"ZADD", rediskey.Ready, 1, "s"}},
	} {
		rdb := as(t, server, user)
		for _, args := range append(slices.Clone(never), further...) {
			t.Run(user+"/"+args[0].(string), func(t *testing.T) {
				if args[0] != "SUBSCRIBE" {
					refused(t, rdb, args...)
					return
				}
				sub := rdb.Subscribe(t.Context(), args[1].(string))
				defer sub.Close()
				if _, err := sub.ReceiveTimeout(t.Context(), 5*time.Second); !redis.HasErrorPrefix(err, "NOPERM") {
					t.Errorf("%v: %v, want NOPERM", args, err)
				}
			})
		}
	}
}

// A tenant's sender works in its own sessions, and cannot touch others'.
func TestTenantsSenderIsKeptApart(t *testing.T) {
	t.Parallel()
	server := acl.Server(t)
	worker := consumer(t, server)
	tenant := actors.NewClient(as(t, server, acl.TenantSender))
	others := actors.NewClient(as(t, server, acl.Sender))
	run := func(c *actors.Client, key string) {
		t.Helper()
		r, err := c.Session(key).Send(t.Context(), turnstile.Message{ID: "m1", Text: "a secret of " + key})
		expect.OK(t, err)
		holds, err := worker.Claim(t.Context(), []string{key})
		if err != nil || len(holds) != 1 {
			t.Fatalf("claim: %v, %v", holds, err)
		}
		_, err = holds[0].Finish(t.Context(), sq.End{Status: session.StatusDone, Reply: "secret"})
		expect.OK(t, err)
		o, err := c.Session(key).Wait(t.Context(), r.ID)
		if err != nil || o.Reply != "secret" {
			t.Fatalf("%+v, %v", o, err)
		}
	}
	const own, other = acl.Tenant + "chat:1", "bravo:chat:1"
	run(tenant, own)
	run(others, other)
	acl.NothingRefused(t, server)

	denied := func(what string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), "NOPERM") {
			t.Errorf("%s: %v, want NOPERM", what, err)
		}
	}
	for _, key := range []string{other, strings.TrimSuffix(acl.Tenant, ":"), "acmetoo:chat:1"} {
		_, err := tenant.Session(key).Send(t.Context(), turnstile.Message{Text: "x"})
		denied("send to "+key, err)
		_, err = tenant.Session(key).Send(t.Context(), turnstile.Message{Text: "/stop"})
		denied("/stop in "+key, err)
		_, err = tenant.Session(key).Send(t.Context(), turnstile.Message{Text: "/history"})
		denied("/history of "+key, err)
		_, err = tenant.Session(key).Wait(t.Context(), "m1")
		denied("wait in "+key, err)
		_, err = actors.Follow(t.Context(), tenant.Session(key), "m1", func(session.Event) { t.Error("an event of " + key) })
		denied("follow in "+key, err)
	}
	rdb := as(t, server, acl.TenantSender)
	k, mine := rediskey.For(other), rediskey.For(own)
	for _, args := range [][]any{
		{"HGETALL", k.Record()}, {"XRANGE", k.Events(), "-", "+"}, {"HGET", k.Task("t"), "msg"}, {"LPUSH", k.Pending(), "x"}, {"DEL", k.Sentinel()},
		// A script that declares a tenant's key and uses another key.
		{"EVAL", "return redis.call('DEL', ARGV[1])", 1, mine.Pending(), k.Sentinel()},
		{"EVAL", "return redis.call('GET', KEYS[2])", 2, mine.Pending(), k.State()},
	} {
		refused(t, rdb, args...)
	}
}

// A tenant's sender can only disturb when others' sessions run, because it shares the indexes. It
// can postpone a name in them, which the workers' sweep repairs, but it can lose nothing. A signal
// on a worker's channel needs the turn's token.
func TestTenantsSenderDelaysAtMost(t *testing.T) {
	t.Parallel()
	server := acl.Server(t)
	worker := consumer(t, server)
	others := actors.NewClient(as(t, server, acl.Sender))
	tenant := as(t, server, acl.TenantSender)
	const other = "bravo:chat:1"
	_, err := others.Session(other).Send(t.Context(), turnstile.Message{ID: "m1", Text: "hello"})
	expect.OK(t, err)
	popped, err := worker.Await(t.Context(), time.Second)
	if err != nil || !slices.Contains(popped, other) {
		t.Fatalf("awaited %v, %v", popped, err)
	}
	// The worker that has popped the name dies, and the tenant puts its recovery off.
	late := time.Now().Add(24 * time.Hour).UnixMilli()
	for _, index := range []string{rediskey.Owned, rediskey.Due, rediskey.Sessions} {
		expect.OK(t, tenant.ZAdd(t.Context(), index, redis.Z{Score: float64(late), Member: other}).Err())
	}
	if n, _, err := worker.Sweep(t.Context(), time.Second); n != 1 || err != nil {
		t.Fatalf("the sweep found %d, %v", n, err)
	}
	if popped, err = worker.Await(t.Context(), time.Second); err != nil || !slices.Contains(popped, other) {
		t.Fatalf("awaited %v, %v", popped, err)
	}
	holds, err := worker.Claim(t.Context(), []string{other})
	if err != nil || len(holds) != 1 {
		t.Fatalf("claim: %v, %v", holds, err)
	}

	ctx, stop := context.WithCancel(t.Context())
	listening, heard := make(chan struct{}), make(chan sq.Signal, 10)
	ended := make(chan error, 1)
	go func() { ended <- worker.Signals(ctx, func() { close(listening) }, func(s sq.Signal) { heard <- s }) }()
	<-listening
	forged, err := json.Marshal(map[string]any{"kind": "stop", "token": "guessed", "fence": holds[0].Turn().Fence})
	expect.OK(t, err)
	expect.OK(t, tenant.Publish(t.Context(), rediskey.Signal("w"), forged).Err())
	if s := <-heard; s.Token == holds[0].Token() || s.TaskID != "" {
		t.Errorf("a forged signal %+v is believed", s)
	}
	stop()
	expect.OK(t, <-ended)
	if _, err := holds[0].Finish(t.Context(), sq.End{Status: session.StatusDone, Reply: "hi"}); err != nil {
		t.Error(err)
	}
	if o, err := others.Session(other).Wait(t.Context(), "m1"); err != nil || o.Reply != "hi" {
		t.Errorf("%+v, %v", o, err)
	}
	acl.NothingRefused(t, server)
}
