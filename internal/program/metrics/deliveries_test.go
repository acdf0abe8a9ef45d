package metrics

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"turnstile/internal/outbox"
	"turnstile/pkg/admin"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// Every metric of a deliverer is exported, and is in the table of docs/webhooks.md with its type and
// labels. Nothing else is.
func TestDocsNameTheDeliveryMetrics(t *testing.T) {
	t.Parallel()
	all, err := outbox.ParseDestinations([]byte(`[{"name": "bot", "url": "https://b.example", "secrets": ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]}]`))
	expect.OK(t, err)
	rdb := redistest.New(t)
	m := New(admin.NewClient(rdb))
	o := m.Deliveries()
	d, err := outbox.New(rdb, outbox.Options{Destinations: func() *outbox.Destinations { return all }, Observer: o, Logger: slog.New(slog.DiscardHandler)})
	expect.OK(t, err)
	t.Cleanup(func() { d.Stop(t.Context()) })
	m.WatchDeliveries(d)
	o.DeliveryDone("bot", true, time.Minute)
	o.DeliveryDone("bot", false, time.Minute)
	for _, why := range outbox.Failures() {
		o.DeliveryFailed("bot", why)
	}
	o.DeliveryRefused("bot")
	o.UnknownDestinations(2)
	o.DeliveryRedisFailed()

	families, err := m.registry.Gather()
	expect.OK(t, err)
	var rows []string
	for _, f := range families {
		name := f.GetName()
		if !strings.HasPrefix(name, "turnstile_deliver") {
			continue
		}
		var labels []string
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, "`"+l.GetName()+"`")
		}
		rows = append(rows, fmt.Sprintf("| `%s` | %s | %s | ", name, strings.ToLower(f.GetType().String()), strings.Join(labels, ", ")))
	}
	text, err := os.ReadFile("../../../docs/webhooks.md")
	expect.OK(t, err)
	for _, row := range rows {
		if !strings.Contains(string(text), "\n"+row) {
			t.Errorf("docs/webhooks.md has no row %s", row)
		}
	}
	if n := strings.Count(string(text), "\n| `turnstile_deliver"); n != len(rows) {
		t.Errorf("the table has %d rows for %d metrics", n, len(rows))
	}
}
