package metrics_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"turnstile/internal/program/metrics"
	"turnstile/pkg/admin"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// docs/http.md has exactly the metrics of a gateway.
func TestPageNamesTheGatewaysMetrics(t *testing.T) {
	t.Parallel()
	m := metrics.New(admin.NewClient(redistest.New(t)))
	g := m.Gateway()
	g.Answered("GET /v1/sessions/{s}", http.StatusOK, time.Millisecond)
	g.Streamed(1)
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
	for _, line := range []string{
		`turnstile_gateway_requests_total{route="GET /v1/sessions/{s}",status="200"} 1`,
		`turnstile_gateway_request_duration_seconds_count{route="GET /v1/sessions/{s}"} 1`,
		"turnstile_gateway_streams 1",
	} {
		if !strings.Contains(w.Body.String(), line+"\n") {
			t.Errorf("there is no %s", line)
		}
	}
	var there []string
	for line := range strings.Lines(w.Body.String()) {
		if words := strings.Fields(line); len(words) == 4 && words[1] == "TYPE" && strings.HasPrefix(words[2], "turnstile_gateway_") {
			there = append(there, words[2]+" "+words[3])
		}
	}
	text, err := os.ReadFile("../../../docs/http.md")
	expect.OK(t, err)
	named := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if cells := strings.Split(line, "|"); len(cells) > 3 && strings.HasPrefix(cells[1], " `turnstile_gateway_") {
			named[strings.Trim(cells[1], " `")+" "+strings.TrimSpace(cells[2])] = true
		}
	}
	expect.Equal(t, "metrics of the page", len(named), len(there))
	for _, metric := range there {
		if !named[metric] {
			t.Errorf("the page lacks %s", metric)
		}
	}
}
