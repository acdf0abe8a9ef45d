package acl_test

import (
	"log/slog"
	"os"
	"regexp"
	"strings"
	"testing"

	"turnstile"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/redis/redisconn"
	"turnstile/pkg/admin"
	"turnstile/pkg/agent/echo"
	"turnstile/pkg/session"
	"turnstile/pkg/worker"
	"turnstile/test/acl"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// The same rules work on a Cluster, with the additions that the page lists.
func TestOnACluster(t *testing.T) {
	t.Parallel()
	redistest.Real(t)
	text, err := os.ReadFile("../../docs/security.md")
	expect.OK(t, err)
	found := regexp.MustCompile("On a Redis Cluster add\\s+`([^`]+)`").FindSubmatch(text)
	if found == nil {
		t.Fatal("the page does not say what to add on a Cluster")
	}
	cluster := redistest.StartCluster(t)
	for _, node := range cluster.Nodes {
		acl.Give(t, node)
		for _, user := range []string{acl.Worker, acl.Sender, acl.Operator} {
			acl.Set(t, node.Client(), user, append(strings.Fields(strings.ReplaceAll(string(found[1]), "'", "")), "-select")...)
		}
	}
	client := func(user string) *actors.Client {
		rdb, err := redisconn.Open(acl.URL(t, cluster.URL(), user))
		expect.OK(t, err)
		t.Cleanup(func() { _ = rdb.Close() })
		return actors.NewClient(rdb)
	}
	rdb, err := redisconn.Open(acl.URL(t, cluster.URL(), acl.Worker))
	expect.OK(t, err)
	t.Cleanup(func() { _ = rdb.Close() })
	sender, operator := client(acl.Sender), client(acl.Operator)
	turns(t, rdb, sender)
	_, err = operator.Page(t.Context(), admin.Query{State: admin.StateBusy})
	expect.OK(t, err)
	expect.OK(t, operator.Operate("a").Erase(t.Context()))
	for _, node := range cluster.Nodes {
		onlySavePointsRefused(t, node)
	}
}

// onlySavePointsRefused checks that a server refused nothing but save points, for which a worker's first
// check asks if there is no append-only file.
func onlySavePointsRefused(t *testing.T, server *redistest.Server) {
	t.Helper()
	for _, r := range acl.Refused(t, server) {
		if r.Object != "config|get" {
			t.Errorf("Redis refused %s: %s %s (%s)", r.User, r.Reason, r.Object, r.Context)
		}
	}
}

// turns runs some turns under a new worker.
func turns(t *testing.T, rdb redis.UniversalClient, sender *actors.Client) {
	t.Helper()
	w, err := worker.New(rdb, echo.New(), worker.Config{Logger: slog.New(slog.DiscardHandler)})
	expect.OK(t, err)
	expect.OK(t, w.Start(t.Context()))
	t.Cleanup(func() { _ = w.Stop(expect.Ended()) })
	for _, key := range []string{"a", "b", "c", "d"} {
		_, err := sender.Session(key).Send(t.Context(), turnstile.Message{ID: "m1", Text: "hello"})
		expect.OK(t, err)
		o, err := sender.Session(key).Wait(t.Context(), "m1")
		if err != nil || o.Status != session.StatusDone {
			t.Fatalf("%+v, %v", o, err)
		}
	}
}

// With Redis Sentinel, the users are those of the data servers, and the sentinels have one of
// theirs.
func TestWithSentinel(t *testing.T) {
	t.Parallel()
	redistest.Real(t)
	f := redistest.StartFailover(t)
	acl.Give(t, f.Master)
	acl.Give(t, f.Replica)
	sentinel := redis.NewClient(&redis.Options{Addr: f.SentinelAddr()})
	t.Cleanup(func() { _ = sentinel.Close() })
	acl.Set(t, sentinel, acl.Sentinel, acl.Rules(t)[acl.Sentinel]...)
	open := func(user string) redis.UniversalClient {
		rdb, err := redisconn.Open(acl.URL(t, f.URL(), user) + "&sentinel_username=" + acl.Sentinel + "&sentinel_password=" + acl.Password())
		expect.OK(t, err)
		t.Cleanup(func() { _ = rdb.Close() })
		return rdb
	}
	turns(t, open(acl.Worker), actors.NewClient(open(acl.Sender)))
	onlySavePointsRefused(t, f.Master)
	refused(t, open(acl.Sender), "FLUSHALL")
	log, err := sentinel.ACLLog(t.Context(), 100).Result()
	expect.OK(t, err)
	for _, entry := range log {
		t.Errorf("the sentinel refused %s %s", entry.Username, entry.Object)
	}
	own := redis.NewClient(&redis.Options{Addr: f.SentinelAddr(), Username: acl.Sentinel, Password: acl.Password()})
	t.Cleanup(func() { _ = own.Close() })
	refused(t, own, "SENTINEL", "FAILOVER", f.MasterName())
}
