package testacl_test

import (
	"context"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

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
		for user := range testacl.Rules(t) {
			args := []any{"ACL", "SETUSER", user, "-select"}
			for _, word := range strings.Fields(string(found[1])) {
				args = append(args, strings.Trim(word, "'"))
			}
			must(t, node.Client().Do(t.Context(), args...).Err())
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
	w, err := worker.New(rdb, echo.New(), worker.Options{ID: "w", Queue: sq.Config{Retention: time.Hour}, Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	must(t, w.Start(t.Context()))
	t.Cleanup(func() { w.Drain(context.Background(), worker.ReasonShutdown) })
	sender, operator := client(testacl.Sender), client(testacl.Operator)
	for _, key := range []string{"a", "b", "c", "d"} {
		_, err := sender.Submit(t.Context(), key, session.Message{ID: "m1", Text: "hello"})
		must(t, err)
		o, err := sender.Wait(t.Context(), key, "m1")
		if err != nil || o.Status != sq.StatusDone {
			t.Fatalf("%+v, %v", o, err)
		}
	}
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
