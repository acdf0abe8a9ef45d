package metrics_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"turnstile"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"go.uber.org/goleak"

	"turnstile/internal/chat/receipt"
	"turnstile/internal/program/httpd"
	"turnstile/internal/program/metrics"
	"turnstile/internal/protocol/deliveries"
	"turnstile/internal/protocol/wire"
	"turnstile/internal/redis/redisconn"
	"turnstile/pkg/admin"
	"turnstile/pkg/agent/echo"
	"turnstile/pkg/session"
	"turnstile/pkg/worker"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

func TestMain(m *testing.M) {
	redisconn.LogTo(slog.New(slog.DiscardHandler))
	goleak.VerifyTestMain(m, redistest.Dialing())
}

const (
	patience = 30 * time.Second
	token    = "a token"
)

// rig is a worker with its HTTP pages, and a sender.
type rig struct {
	*testing.T
	client *actors.Client
	worker *worker.Worker
	url    string // of /metrics

	observer worker.Observer
}

// newRig starts a worker of the agent echo like cmd/worker, on the Redis at url.
func newRig(t *testing.T, url string, change func(*worker.Config)) *rig {
	t.Helper()
	rdb, err := redisconn.Open(url)
	expect.OK(t, err)
	m := metrics.New(admin.NewClient(rdb))
	rdb.AddHook(m.Scripts())
	o := worker.Config{Logger: slog.New(slog.DiscardHandler), RetryBackoff: time.Millisecond, Observer: m.Observer()}
	change(&o)
	w, err := worker.New(rdb, echo.New(), o)
	expect.OK(t, err)
	m.Watch(w)
	m.Log(func() int64 { return 7 })
	s, err := httpd.New(httpd.Config{Addr: "127.0.0.1:0", Token: token, RedisURL: url, Metrics: m.Handler()})
	expect.OK(t, err)
	expect.OK(t, s.Start(t.Context()))
	expect.OK(t, w.Start(t.Context()))
	t.Cleanup(func() {
		_ = w.Stop(expect.Ended())
		expect.OK(t, s.Stop(context.Background()))
		_ = rdb.Close()
	})
	return &rig{t, actors.NewClient(rdb), w, "http://" + s.Addr() + "/metrics", o.Observer}
}

func (r *rig) say(key, id, text string) {
	r.Helper()
	r.send(key, turnstile.Message{ID: id, Text: text})
}

func (r *rig) send(key string, m turnstile.Message, opts ...actors.Option) {
	r.Helper()
	_, err := receipt.Input(r.Context(), r.client.Session(key), actors.With(m, opts...))
	expect.OK(r, err)
}

func (r *rig) ends(key, id string) {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	_, err := r.client.Session(key).Wait(ctx, id)
	expect.OK(r, err)
}

// runs waits until a message's turn runs.
func (r *rig) runs(key string) {
	r.Helper()
	expect.Soon(r, "the turn of "+key, func() bool {
		s, err := r.client.Session(key).Info(r.Context())
		expect.OK(r, err)
		return s.Phase == "running"
	})
}

// get requests the page.
func (r *rig) get(token string) *http.Response {
	r.Helper()
	request, err := http.NewRequestWithContext(r.Context(), http.MethodGet, r.url, nil)
	expect.OK(r, err)
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
	expect.OK(r, err)
	r.Cleanup(func() { _ = response.Body.Close() })
	return response
}

// page is one scrape, by the names of the families.
type page map[string]*dto.MetricFamily

func (r *rig) scrape() page {
	r.Helper()
	response := r.get(token)
	if kind := response.Header.Get("Content-Type"); response.StatusCode != http.StatusOK || !strings.HasPrefix(kind, "text/plain; version=0.0.4") {
		r.Fatalf("%s, %s", response.Status, kind)
	}
	return parse(r.T, response.Body)
}

func parse(t *testing.T, text io.Reader) page {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(text)
	expect.OK(t, err)
	return families
}

// has checks values by name{label}.
func (p page) has(t *testing.T, want map[string]float64) {
	t.Helper()
	got := p.values()
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if v, ok := got[name]; !ok || v != want[name] {
			t.Errorf("%s is %v (there: %v), want %v", name, v, ok, want[name])
		}
	}
}

func (p page) values() map[string]float64 {
	values := map[string]float64{}
	for name, f := range p {
		for _, m := range f.GetMetric() {
			key := name
			for _, l := range m.GetLabel() {
				key += "{" + l.GetValue() + "}"
			}
			switch f.GetType() {
			case dto.MetricType_HISTOGRAM:
				values[key+" count"] = float64(m.GetHistogram().GetSampleCount())
				values[key+" sum"] = m.GetHistogram().GetSampleSum()
			case dto.MetricType_COUNTER:
				values[key] = m.GetCounter().GetValue()
			default:
				values[key] = m.GetGauge().GetValue()
			}
		}
	}
	return values
}

// The metrics match the turns that ran.
func TestNumbersOfRealTurns(t *testing.T) {
	t.Parallel()
	r := newRig(t, redistest.URL(t), func(o *worker.Config) { o.Concurrency = 2 })
	r.scrape().has(t, map[string]float64{
		"turnstile_turns_parked": 0, "turnstile_question_oldest_age_seconds": 0, "turnstile_questions_open": 0, "turnstile_dead_letters": 0,
		"turnstile_turns_ended_total{done}": 0, "turnstile_turns_ended_total{lost}": 0, "turnstile_redis_failures_total{claim}": 0,
		"turnstile_log_lines_left_out_total":    7,
		"turnstile_turn_duration_seconds count": 0, "turnstile_turns_running": 0, "turnstile_turn_slots": 2, "turnstile_draining": 0,
		"turnstile_redis_up": 1, "turnstile_sessions{ready}": 0, "turnstile_sessions{due}": 0, "turnstile_sessions{owned}": 0,
		"turnstile_ready_oldest_age_seconds": 0, "turnstile_sessions{outbox}": 0, "turnstile_outbox_late_seconds": 0,
	})

	for i := range 3 {
		r.say("a", fmt.Sprint("done", i), "hello")
	}
	r.say("a", "slow", "sleep=150ms hello")
	r.say("a", "behind", "hello")
	r.say("b", "again", "fail=retry:1 hello")
	r.ends("a", "behind")
	r.ends("b", "again")
	r.say("c", "bad", "fail=final hello")
	r.ends("c", "bad")

	// Both slots are taken. Two sessions wait for a slot, and one for its time.
	r.say("d", "long", "sleep=1h hello")
	r.say("e", "long", "sleep=1h hello")
	r.runs("d")
	r.runs("e")
	r.say("f", "waits", "hello")
	r.say("g", "waits", "hello")
	r.send("h", turnstile.Message{ID: "later", Text: "hello"}, actors.Delay(time.Hour))
	expect.Soon(r, "some waiting", func() bool { return r.scrape().values()["turnstile_ready_oldest_age_seconds"] > 0.05 })
	expect.Soon(r, "the end of the other turns", func() bool { return r.worker.Status().Running == 2 }) // a turn's end is known before it is counted
	p := r.scrape()
	p.has(t, map[string]float64{
		"turnstile_turns_running": 2, "turnstile_sessions{ready}": 2, "turnstile_sessions{due}": 1,
		"turnstile_turns_ended_total{done}": 6, "turnstile_turns_ended_total{retried}": 1, "turnstile_turns_ended_total{failed}": 1,
	})
	if owned := p.values()["turnstile_sessions{owned}"]; owned < 4 { // d to g, and those that ran just before
		t.Errorf("%v sessions in owned", owned)
	}

	r.say("d", "", "/stop")
	r.ends("d", "long")
	r.send("e", turnstile.Message{ID: "newer", Text: "hello", Mode: session.ModeInterrupt})
	r.ends("e", "newer")
	r.ends("f", "waits")
	r.ends("g", "waits")
	expect.Soon(r, "the end of all turns", func() bool { return r.worker.Status().Running == 0 })
	p = r.scrape()
	p.has(t, map[string]float64{
		// done0 to done2, slow, behind, again, newer, and those of f and g.
		"turnstile_turns_ended_total{done}": 9, "turnstile_turns_ended_total{retried}": 1, "turnstile_turns_ended_total{failed}": 1,
		"turnstile_turns_ended_total{stopped}": 1, "turnstile_turns_ended_total{interrupted}": 1,
		"turnstile_turns_ended_total{expired}": 0, "turnstile_turns_ended_total{requeued}": 0, "turnstile_turns_ended_total{lost}": 0,
		"turnstile_turn_duration_seconds count": 13, // all turns that ran
		"turnstile_message_wait_seconds count":  12, // the second turn of "again" has no new message
		"turnstile_turns_running":               0, "turnstile_leases_lost_total": 0, "turnstile_sessions{ready}": 0, "turnstile_redis_up": 1,
	})
	sums := p.values()
	if took := sums["turnstile_turn_duration_seconds sum"]; took < 0.15 || took > patience.Seconds() {
		t.Errorf("all turns took %v s, one of them 0.15", took)
	}
	if waited := sums["turnstile_message_wait_seconds sum"]; waited < 0.15 || waited > patience.Seconds() {
		t.Errorf("all messages waited %v s, one of them behind a turn of 0.15 s", waited)
	}

	r.say("e", "cut", "sleep=1h hello")
	r.runs("e")
	_ = r.worker.StopToRestart(expect.Ended())
	r.scrape().has(t, map[string]float64{"turnstile_draining": 1, "turnstile_turns_ended_total{requeued}": 1})
}

// Without a deliverer, the sweep enters the sessions with deliveries, and nobody looks at them.
func TestSessionsWithDeliveriesWait(t *testing.T) {
	t.Parallel()
	r := newRig(t, redistest.URL(t), func(o *worker.Config) { o.SweepInterval = 100 * time.Millisecond })
	r.send("a", turnstile.Message{ID: "m", Text: "hello"}, actors.ReplyTo(wire.Route{To: "bot"}))
	r.send("b", turnstile.Message{ID: "m", Text: "hello"})
	r.ends("a", "m")
	r.ends("b", "m")
	expect.Soon(r, "the session to wait", func() bool { return r.scrape().values()["turnstile_outbox_late_seconds"] > 0.05 })
	r.scrape().has(t, map[string]float64{"turnstile_sessions{outbox}": 1})
}

// scrapeWith scrapes until the counts of destinations are those that count stores: the worker may count
// at the same time.
func (r *rig) scrapeWith(count func()) (all page) {
	r.Helper()
	expect.Soon(r, "the counts of a destination", func() bool {
		count()
		all = r.scrape()
		values := all.values()
		return values["turnstile_destination_owed{bot}"] == 3 && values["turnstile_destination_oldest_age_seconds{bot}"] >= 3600
	})
	return all
}

// A lost lease is counted, and its turn counts as lost.
func TestLostLease(t *testing.T) {
	t.Parallel()
	r := newRig(t, redistest.URL(t), func(o *worker.Config) { o.LeaseTTL = expect.Lease(time.Second) })
	r.say("a", "m", "sleep=1h hello")
	r.runs("a")
	expect.OK(t, redistest.New(t).Set(t.Context(), "turnstile:{session:a}:sentinel", "another's", time.Minute).Err())
	expect.Soon(r, "the loss", func() bool { return r.scrape().values()["turnstile_leases_lost_total"] > 0 })
	r.scrape().has(t, map[string]float64{"turnstile_leases_lost_total": 1, "turnstile_turns_ended_total{lost}": 1, "turnstile_turn_duration_seconds count": 0})
}

// If Redis hangs or is gone, a scrape reports that and does not hang.
func TestScrapeWithoutRedis(t *testing.T) {
	t.Parallel()
	server := redistest.StartServer(t)
	r := newRig(t, server.URL(), func(o *worker.Config) { o.Concurrency = 3 })
	r.say("a", "m", "hello")
	r.ends("a", "m")
	expect.Soon(r, "the turn's end to be counted", func() bool { return r.worker.Status().Running == 0 })
	for name, c := range map[string]struct{ away, back func() }{
		"hangs": {server.Pause, server.Resume},
		"gone":  {server.Kill, server.Start},
	} {
		expect.Soon(r, "a scrape with Redis", func() bool { return r.scrape().values()["turnstile_redis_up"] == 1 })
		c.away()
		begin := time.Now()
		p := r.scrape()
		if took := time.Since(begin); took > 5*time.Second { // far below the client's own timeouts
			t.Errorf("%s: the scrape took %s", name, took)
		}
		p.has(t, map[string]float64{"turnstile_redis_up": 0, "turnstile_turn_slots": 3, "turnstile_turns_ended_total{done}": 1})
		for _, f := range []string{"turnstile_sessions", "turnstile_ready_oldest_age_seconds", "turnstile_outbox_late_seconds"} {
			if p[f] != nil {
				t.Errorf("%s: %s is there, with %v", name, f, p[f])
			}
		}
		c.back()
	}
	expect.Soon(r, "a scrape with Redis", func() bool { return r.scrape().values()["turnstile_redis_up"] == 1 })
}

func TestMetricsNeedTheToken(t *testing.T) {
	t.Parallel()
	r := newRig(t, redistest.URL(t), func(*worker.Config) {})
	for given, want := range map[string]int{"": 401, "wrong": 401, token: 200} {
		if got := r.get(given).StatusCode; got != want {
			t.Errorf("with the token %q: %d, want %d", given, got, want)
		}
	}
}

var (
	row  = regexp.MustCompile("^\\| `(turnstile_[a-z_]+)` \\| ([a-z]+) \\| ([^|]*) \\| ([^|]+) \\|$")
	word = regexp.MustCompile("turnstile_[a-z_]+")
)

// The page's table has exactly the exported metrics, with their types and labels, and its alerts
// name no others.
func TestDocsNameTheMetrics(t *testing.T) {
	t.Parallel()
	r := newRig(t, redistest.URL(t), func(*worker.Config) {})
	r.say("a", "m", "hello")
	r.ends("a", "m")
	r.observer.Used("default", session.Usage{Model: "m", InputTokens: 3, CachedTokens: 1, OutputTokens: 1, CostUSD: 1})
	there := map[string]string{}
	others := map[string]bool{}
	rdb := redistest.New(t)
	for name, f := range r.scrapeWith(func() {
		expect.OK(t, deliveries.Owings{"bot": {Count: 3, Oldest: time.Now().Add(-time.Hour).UnixMilli()}}.Store(t.Context(), rdb))
	}) {
		if !strings.HasPrefix(name, "turnstile_") {
			prefix, _, _ := strings.Cut(name, "_")
			others[prefix] = true
			continue
		}
		labels := map[string][]string{}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = append(labels[l.GetName()], l.GetValue())
			}
		}
		var texts []string
		for _, l := range slices.Sorted(maps.Keys(labels)) {
			text := "`" + l + "`"
			slices.Sort(labels[l])
			if values := slices.Compact(labels[l]); len(values) > 1 && l != "script" {
				text += ": " + strings.Join(values, ", ")
			}
			texts = append(texts, text)
		}
		there[name] = strings.ToLower(f.GetType().String()) + " | " + strings.Join(texts, ", ")
		if f.GetHelp() == "" {
			t.Errorf("%s has no help", name)
		}
	}
	if !maps.Equal(others, map[string]bool{"go": true, "process": true}) {
		t.Errorf("besides turnstile_ there is %v", others)
	}
	text, err := os.ReadFile("../../../docs/operations.md")
	expect.OK(t, err)
	for _, name := range word.FindAllString(string(text), -1) {
		if _, ok := there[name]; !ok {
			t.Errorf("docs/operations.md names %s, which is not there", name)
		}
	}
	for line := range strings.Lines(string(text)) {
		m := row.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			continue
		}
		if got, want := m[2]+" | "+m[3], there[m[1]]; got != want {
			t.Errorf("docs/operations.md says of %s\n%s, it is\n%s", m[1], got, want)
		}
		delete(there, m[1])
	}
	for name, what := range there {
		t.Errorf("docs/operations.md lacks\n| `%s` | %s | ... |", name, what)
	}
}

// The observer's cost is measured in allocations, not in time. AllocsPerRun needs a test that is
// not parallel.
func TestObserverAllocatesNothing(t *testing.T) {
	o := metrics.New(admin.NewClient(nil)).Observer()
	end := worker.TurnEnd{Session: "s", Turn: "t", Message: "m", Attempt: 1, Status: session.StatusDone, Ran: true, Duration: time.Second}
	if n := testing.AllocsPerRun(1000, func() {
		o.MessageStarted(time.Second)
		o.TurnEnded(end)
	}); n != 0 {
		t.Errorf("a turn costs %v allocations", n)
	}
}
