// Package metrics exports a worker's metrics to Prometheus. docs/operations.md lists them; a test
// compares the two.
//
// No label is a session, a message or anything else that users choose, and models are bounded, so the
// number of series does not grow.
package metrics

import (
	"errors"
	"net/http"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"turnstile/internal/version"
	"turnstile/pkg/admin"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/pkg/worker"
)

// The buckets' bounds, in seconds.
var (
	durations = []float64{0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600}
	waits     = []float64{0.01, 0.05, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900}
)

// The values of the labels status and duty, which a worker.Observer is called with.
var (
	statuses = []session.Status{
		session.StatusDone, session.StatusFailed, session.StatusInterrupted, session.StatusStopped, session.StatusExpired,
		worker.StatusRequeued, worker.StatusRetried, worker.StatusParked, worker.StatusLost,
	}
	duties = []string{"claim", "renew", "due", "reap", "sweep", "wake"}
)

// Metrics are those of one process, in a registry of their own.
type Metrics struct{ registry *prometheus.Registry }

// New exports the process, the version and the sessions' indexes, which admin reads for each
// scrape.
func New(admin *admin.Client) *Metrics {
	m := &Metrics{prometheus.NewRegistry()}
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name:        "turnstile_build_info",
		Help:        "Always 1; the labels tell which version runs.",
		ConstLabels: prometheus.Labels{"version": version.String(), "goversion": runtime.Version()},
	})
	build.Set(1)
	m.registry.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		build, newIndexes(admin.Backlog),
	)
	return m
}

// Handler serves the metrics in Prometheus' text format.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// Observer returns the worker.Observer of one worker. Call it once.
func (m *Metrics) Observer() worker.Observer {
	o := &observer{
		ended: newCounters("turnstile_turns_ended_total", "status",
			"Turns that ended on this worker. Those with status requeued, retried and lost are run again.", statuses),
		failed: newCounters("turnstile_redis_failures_total", "duty",
			"Failures of what the worker does in Redis for itself. It tries again.", duties),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "turnstile_turn_duration_seconds", Buckets: durations,
			Help: "How long turns took whose agent was started, from their claim to their end; without those that were lost.",
		}),
		wait: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "turnstile_message_wait_seconds", Buckets: waits,
			Help: "How long messages waited in line until their first turn; delayed ones from when they were due.",
		}),
		lost: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "turnstile_leases_lost_total",
			Help: "Turns that were abandoned because their session's lease was lost.",
		}),
	}
	u := newUsage()
	m.registry.MustRegister(o.ended.vec, o.failed.vec, o.duration, o.wait, o.lost, u.tokens, u.cost)
	return worker.Observer{MessageStarted: o.messageStarted, TurnEnded: o.turnEnded, Used: u.used, RedisFailed: o.redisFailed}
}

// Log exports how many lines of the log were left out. Call it once.
func (m *Metrics) Log(leftOut func() int64) {
	m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "turnstile_log_lines_left_out_total",
		Help: "Lines of the log that were left out because nobody read it.",
	}, func() float64 { return float64(leftOut()) }))
}

// Watch exports a worker's state at the time of each scrape. Call it once.
func (m *Metrics) Watch(w *worker.Worker) {
	gauge := func(name, help string, value func() float64) {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
	}
	gauge("turnstile_turns_running", "Turns that run on this worker now, also those that wait without a slot.", func() float64 { return float64(w.Status().Running) })
	gauge("turnstile_turns_waiting", "Turns that wait on this worker without a slot, for the user's decision or for a slot after it.", func() float64 { return float64(w.Status().Waiting) })
	gauge("turnstile_turn_slots", "Turns that this worker runs at most at the same time.", func() float64 { return float64(w.Status().Slots) })
	gauge("turnstile_agents_unavailable", "Agents that this worker cannot start now.", func() float64 { return float64(len(w.Status().Unable)) })
	gauge("turnstile_draining", "1: the worker drains, and claims nothing more.", func() float64 {
		if w.Status().Draining {
			return 1
		}
		return 0
	})
}

// observer has the functions of a worker.Observer.
type observer struct {
	ended          counters[session.Status]
	failed         counters[string]
	duration, wait prometheus.Histogram
	lost           prometheus.Counter
}

func (o *observer) messageStarted(wait time.Duration) { o.wait.Observe(wait.Seconds()) }

func (o *observer) turnEnded(end worker.TurnEnd) {
	o.ended.inc(end.Status)
	if end.Status == worker.StatusLost {
		if errors.Is(end.Err, agent.ErrLeaseLost) {
			o.lost.Inc()
		}
		return
	}
	if end.Ran {
		o.duration.Observe(end.Duration.Seconds())
	}
}

func (o *observer) redisFailed(duty string, _ error) { o.failed.inc(duty) }

// counters is a counter for each value of one label.
type counters[T ~string] struct {
	vec   *prometheus.CounterVec
	known map[T]prometheus.Counter // never changed
}

// newCounters creates all series at once, because a rate needs a first value.
func newCounters[T ~string](name, label, help string, values []T) counters[T] {
	c := counters[T]{prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label}), map[T]prometheus.Counter{}}
	for _, v := range values {
		c.known[v] = c.vec.WithLabelValues(string(v))
	}
	return c
}

func (c counters[T]) inc(value T) {
	known, ok := c.known[value]
	if !ok {
		known = c.vec.WithLabelValues(string(value))
	}
	known.Inc()
}
