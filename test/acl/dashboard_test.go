package acl_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"turnstile"
	"turnstile/internal/program/httpd"
	"turnstile/internal/program/metrics"
	"turnstile/internal/protocol/rediskey"
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

const (
	waits = "waits" // a session with messages in each state that asynqmon has a page for
	runs  = "runs"
)

// dashboard serves the same as `worker dashboard`, as a user.
func dashboard(t *testing.T, server *redistest.Server, user string, write bool) (addr string) {
	t.Helper()
	rdb := as(t, server, user)
	warnings, err := redisconn.Check(t.Context(), rdb)
	if err != nil || len(warnings) > 0 {
		t.Fatalf("the first look: %q, %v", warnings, err)
	}
	s, err := httpd.New(httpd.Config{
		Addr: "127.0.0.1:0", RedisURL: acl.URL(t, server.URL(), user), Write: write, Ping: func(ctx context.Context) error { return rdb.Ping(ctx).Err() },
		Metrics: metrics.New(admin.NewClient(rdb)).Handler(), Logger: slog.New(slog.DiscardHandler),
	})
	expect.OK(t, err)
	expect.OK(t, s.Start(t.Context()))
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		_ = s.Stop(context.Background())
	})
	return "http://" + s.Addr()
}

// ask requests a page, which must succeed.
func ask(t *testing.T, method, url, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	expect.OK(t, err)
	response, err := http.DefaultClient.Do(request)
	expect.OK(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	expect.OK(t, err)
	if response.StatusCode/100 != 2 {
		t.Errorf("%s %s: %s %s", method, url, response.Status, text)
	}
}

// fill puts messages into the session waits, one in each state, and starts a worker that runs a
// message of the session runs.
func fill(t *testing.T, server *redistest.Server) {
	t.Helper()
	ctx := t.Context()
	rdb := as(t, server, acl.Worker)
	w, err := worker.New(rdb, echo.New(), worker.Config{Name: "w", Logger: slog.New(slog.DiscardHandler)})
	expect.OK(t, err)
	expect.OK(t, w.Start(ctx))
	t.Cleanup(func() { _ = w.Stop(expect.Ended()) })
	client := actors.NewClient(as(t, server, acl.Sender))
	say := func(key, id, text string, opts ...actors.Option) {
		t.Helper()
		_, err := client.Session(key).Send(ctx, actors.With(turnstile.Message{ID: id, Text: text}, opts...))
		expect.OK(t, err)
	}
	for _, id := range []string{"done", "done2"} {
		say(waits, id, "hello")
		_, err = client.Session(waits).Wait(ctx, id)
		expect.OK(t, err)
	}
	for _, id := range []string{"dead", "dead2", "dead3"} {
		say(waits, id, "fail")
		_, err = client.Session(waits).Wait(ctx, id)
		expect.OK(t, err)
	}
	for _, id := range []string{"later", "later2", "later3"} {
		say(waits, id, "later", actors.Delay(time.Hour))
	}
	expect.OK(t, server.Client().Set(ctx, rediskey.For(waits).Paused(), 1, 0).Err())
	for _, id := range []string{"next", "next2", "next3"} {
		say(waits, id, "next")
	}
	say(runs, "now", "sleep=1h now")
	started, stop := context.WithCancel(ctx)
	defer stop()
	_, err = actors.Follow(started, client.Session(runs), "now", func(e session.Event) {
		if e.Type == session.EventTurnStarted {
			stop()
		}
	})
	if ctx.Err() != nil || started.Err() == nil {
		t.Fatalf("the turn was not started: %v", err)
	}
}

// The pages of asynqmon, /metrics and /readyz work for the read-only user, and for the worker's
// user with the same rights.
func TestDashboardReads(t *testing.T) {
	t.Parallel()
	server := acl.Server(t)
	fill(t, server)
	reads(t, dashboard(t, server, acl.Dashboard, false))
	var further []string
	for _, word := range acl.Rules(t)[acl.Dashboard] {
		if word != "reset" && word != "on" && word[0] != '>' {
			further = append(further, word)
		}
	}
	acl.Set(t, server.Client(), acl.Worker, further...)
	reads(t, dashboard(t, server, acl.Worker, false))
	acl.NothingRefused(t, server)
}

// reads requests every page.
func reads(t *testing.T, addr string) {
	t.Helper()
	queue := addr + "/asynqmon/api/queues/" + rediskey.Queue(waits)
	for _, page := range []string{
		addr + "/readyz", addr + "/metrics", addr + "/asynqmon", addr + "/asynqmon/api/queues", addr + "/asynqmon/api/queue_stats",
		addr + "/asynqmon/api/servers", addr + "/asynqmon/api/scheduler_entries", addr + "/asynqmon/api/redis_info",
		queue, queue + "/active_tasks", queue + "/pending_tasks", queue + "/scheduled_tasks", queue + "/retry_tasks",
		queue + "/archived_tasks", queue + "/completed_tasks", queue + "/groups", queue + "/tasks/" + rediskey.TaskID(waits, "dead"),
		addr + "/asynqmon/api/queues/" + rediskey.Queue(runs) + "/active_tasks",
	} {
		ask(t, http.MethodGet, page, "")
	}
}

// The buttons of asynqmon work for the user that may write.
func TestDashboardWrites(t *testing.T) {
	t.Parallel()
	server := acl.Server(t)
	fill(t, server)
	addr := dashboard(t, server, acl.DashboardWrite, true)
	queue := addr + "/asynqmon/api/queues/" + rediskey.Queue(waits)
	task := func(id string) string { return "/" + rediskey.TaskID(waits, id) }
	ids := func(list ...string) string {
		for i, id := range list {
			list[i] = `"` + rediskey.TaskID(waits, id) + `"`
		}
		return `{"task_ids":[` + strings.Join(list, ",") + `]}`
	}
	for _, b := range []struct{ method, url, body string }{
		{"POST", queue + ":resume", ""}, {"POST", queue + ":pause", ""},
		{"POST", queue + "/archived_tasks" + task("dead") + ":run", ""},
		{"DELETE", queue + "/archived_tasks" + task("dead2"), ""},
		{"POST", queue + "/scheduled_tasks" + task("later") + ":run", ""},
		{"POST", queue + "/scheduled_tasks" + task("later2") + ":archive", ""},
		{"POST", queue + "/scheduled_tasks:archive_all", ""},
		{"POST", queue + "/archived_tasks:batch_run", ids("later3")},
		{"POST", queue + "/pending_tasks" + task("next") + ":archive", ""},
		{"DELETE", queue + "/pending_tasks" + task("next2"), ""},
		{"POST", queue + "/pending_tasks:batch_archive", ids("next3")},
		{"POST", queue + "/archived_tasks:run_all", ""},
		{"POST", queue + "/pending_tasks:archive_all", ""},
		{"DELETE", queue + "/archived_tasks:delete_all", ""},
		{"DELETE", queue + "/completed_tasks" + task("done"), ""},
		{"DELETE", queue + "/completed_tasks:delete_all", ""},
		{"DELETE", queue + "/pending_tasks:delete_all", ""}, {"DELETE", queue + "/scheduled_tasks:delete_all", ""},
		{"POST", queue + "/scheduled_tasks:run_all", ""}, {"POST", queue + "/retry_tasks:run_all", ""},
		{"POST", queue + "/retry_tasks:archive_all", ""}, {"DELETE", queue + "/retry_tasks:delete_all", ""},
		{"POST", addr + "/asynqmon/api/queues/" + rediskey.Queue(runs) + "/active_tasks/" + rediskey.TaskID(runs, "now") + ":cancel", ""},
		{"DELETE", queue, ""},
	} {
		ask(t, b.method, b.url, b.body)
	}
	end, err := actors.NewClient(as(t, server, acl.Sender)).Session(runs).Wait(t.Context(), "now")
	if err != nil || end.Status != session.StatusStopped {
		t.Errorf("after Cancel: %+v, %v", end, err)
	}
	acl.NothingRefused(t, server)
}
