package testacl_test

import (
	"context"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/redisconn"
	"turnstile/internal/testacl"
	"turnstile/internal/testredis"
	"turnstile/pkg/agent/echo"
	"turnstile/pkg/session"
	sq "turnstile/pkg/sessionqueue"
	"turnstile/pkg/worker"
)

// On a Cluster the same rules do, with what the page says to add.
func TestOnACluster(t *testing.T) {
	t.Parallel()
	testredis.Real(t)
	text, err := os.ReadFile("../../docs/security.md")
	must(t, err)
	found := regexp.MustCompile("On a Redis Cluster add\\s+`([^`]+)`").FindSubmatch(text)
	if found == nil {
		t.Fatal("the page does not say what to add on a Cluster")
	}
	cluster := testredis.StartCluster(t)
	for _, node := range cluster.Nodes {
		testacl.Give(t, node)
		for _, user := range []string{testacl.Worker, testacl.Sender, testacl.Operator} {
			testacl.Set(t, node.Client(), user, append(strings.Fields(strings.ReplaceAll(string(found[1]), "'", "")), "-select")...)
		}
	}
	client := func(user string) *sq.Client {
		rdb, err := redisconn.Open(testacl.URL(t, cluster.URL(), user))
		must(t, err)
		t.Cleanup(func() { _ = rdb.Close() })
		return sq.NewClient(rdb)
	}
	rdb, err := redisconn.Open(testacl.URL(t, cluster.URL(), testacl.Worker))
	must(t, err)
	t.Cleanup(func() { _ = rdb.Close() })
	if _, err := redisconn.Check(t.Context(), rdb); err != nil {
		t.Fatal(err)
	}
	sender, operator := client(testacl.Sender), client(testacl.Operator)
	turns(t, rdb, sender)
	_, err = operator.Busy(t.Context())
	must(t, err)
	must(t, operator.Erase(t.Context(), "a"))
	for _, node := range cluster.Nodes {
		for _, r := range testacl.Refused(t, node) {
			// The first look asks for save points where there is no append-only file.
			if r.Object != "config|get" {
				t.Errorf("Redis refused %s: %s %s (%s)", r.User, r.Reason, r.Object, r.Context)
			}
		}
	}
}

// turns runs some under a worker of its own.
func turns(t *testing.T, rdb redis.UniversalClient, sender *sq.Client) {
	t.Helper()
	w, err := worker.New(rdb, echo.New(), worker.Options{ID: "w", Queue: sq.Config{Retention: time.Hour}, Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	must(t, w.Start(t.Context()))
	t.Cleanup(func() { w.Drain(context.Background(), worker.ReasonShutdown) })
	for _, key := range []string{"a", "b", "c", "d"} {
		_, err := sender.Submit(t.Context(), key, session.Message{ID: "m1", Text: "hello"})
		must(t, err)
		o, err := sender.Wait(t.Context(), key, "m1")
		if err != nil || o.Status != sq.StatusDone {
			t.Fatalf("%+v, %v", o, err)
		}
	}
}

// Behind Redis Sentinel the users are the data servers', and the sentinels have one.
func TestWithSentinel(t *testing.T) {
	t.Parallel()
	testredis.Real(t)
	f := testredis.StartFailover(t)
	testacl.Give(t, f.Master)
	testacl.Give(t, f.Replica)
	sentinel := redis.NewClient(&redis.Options{Addr: f.SentinelAddr()})
	t.Cleanup(func() { _ = sentinel.Close() })
	testacl.Set(t, sentinel, testacl.Sentinel, testacl.Rules(t)[testacl.Sentinel]...)
	open := func(user string) redis.UniversalClient {
		rdb, err := redisconn.Open(testacl.URL(t, f.URL(), user) + "&sentinel_username=" + testacl.Sentinel + "&sentinel_password=" + testacl.Password())
		must(t, err)
		t.Cleanup(func() { _ = rdb.Close() })
		return rdb
	}
	turns(t, open(testacl.Worker), sq.NewClient(open(testacl.Sender)))
	testacl.NothingRefused(t, f.Master)
	refused(t, open(testacl.Sender), "FLUSHALL")
	log, err := sentinel.ACLLog(t.Context(), 100).Result()
	must(t, err)
	for _, entry := range log {
		t.Errorf("the sentinel refused %s %s", entry.Username, entry.Object)
	}
	own := redis.NewClient(&redis.Options{Addr: f.SentinelAddr(), Username: testacl.Sentinel, Password: testacl.Password()})
	t.Cleanup(func() { _ = own.Close() })
	refused(t, own, "SENTINEL", "FAILOVER", f.MasterName())
}
