package metrics_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"turnstile/internal/program/metrics"
	"turnstile/internal/redis/redisconn"
	"turnstile/pkg/admin"
	"turnstile/pkg/session"
	"turnstile/pkg/worker"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// The tokens are those that agents have reported, also in turns that fail, and each script's round trips
// are measured.
func TestUsageOfRealTurns(t *testing.T) {
	t.Parallel()
	r := newRig(t, redistest.URL(t), func(*worker.Config) {})
	r.say("a", "one", "usage=1200:350 hello")
	r.say("a", "two", "usage=100:5 fail=final hello")
	r.ends("a", "two")
	p := r.scrape()
	p.has(t, map[string]float64{"turnstile_tokens_total{default}{input}{echo}": 1300, "turnstile_tokens_total{default}{output}{echo}": 355})
	// Each claim tries the fast path first, and a failed turn ends by the full one.
	for _, script := range []string{"claim_fast", "finish"} {
		if n := p.values()["turnstile_script_duration_seconds{"+script+"} count"]; n < 1 {
			t.Errorf("%s was measured %v times", script, n)
		}
	}
}

// An agent may report any number and any model.
func TestReportsAreBounded(t *testing.T) {
	t.Parallel()
	rdb, err := redisconn.Open(redistest.URL(t))
	expect.OK(t, err)
	t.Cleanup(func() { _ = rdb.Close() })
	m := metrics.New(admin.NewClient(rdb))
	o := m.Observer()
	page := func() page {
		w := httptest.NewRecorder()
		m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
		return parse(t, w.Body)
	}
	o.Used("a", session.Usage{Model: "m", InputTokens: 10, CachedTokens: 4, OutputTokens: -1, CostUSD: 0.25})
	o.Used("a", session.Usage{Model: "m", InputTokens: -1, CachedTokens: 1 << 62, OutputTokens: 1 << 62, CostUSD: -7})
	page().has(t, map[string]float64{
		"turnstile_tokens_total{a}{input}{m}": 6, "turnstile_tokens_total{a}{cached}{m}": 4, "turnstile_tokens_total{a}{output}{m}": 1 << 40,
		"turnstile_cost_usd_total{a}{m}": 0.25,
	})
	for i := range 200 {
		o.Used("a", session.Usage{Model: fmt.Sprint("model", i), OutputTokens: 1})
	}
	o.Used("b", session.Usage{Model: "\xff", OutputTokens: 1})
	o.Used("b", session.Usage{Model: strings.Repeat("x", 101), OutputTokens: 1})
	p := page()
	p.has(t, map[string]float64{"turnstile_tokens_total{a}{output}{other}": 151, "turnstile_tokens_total{b}{output}{other}": 2})
	if n := len(p["turnstile_tokens_total"].GetMetric()); n != 3+49+2 {
		t.Errorf("%d series", n)
	}
}
