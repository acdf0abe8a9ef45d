package metrics

import (
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Gateway counts the requests of one gateway. It implements gateway.Observer.
type Gateway struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	open     atomic.Int64
}

// The buckets' bounds, in seconds.
var requestTimes = []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5}

// Gateway returns the counters of a gateway. Call it once.
func (m *Metrics) Gateway() *Gateway {
	g := &Gateway{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "turnstile_gateway_requests_total",
			Help: "Requests that got a response, by route and status. A stream counts when it opens.",
		}, []string{"route", "status"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "turnstile_gateway_request_duration_seconds", Buckets: requestTimes,
			Help: "How long requests took. A stream counts until it opens.",
		}, []string{"route"}),
	}
	m.registry.MustRegister(g.requests, g.duration, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "turnstile_gateway_streams", Help: "Event streams that are open now.",
	}, func() float64 { return float64(g.Open()) }))
	return g
}

// Answered implements gateway.Observer.
func (g *Gateway) Answered(route string, status int, took time.Duration) {
	g.requests.WithLabelValues(route, strconv.Itoa(status)).Inc()
	g.duration.WithLabelValues(route).Observe(took.Seconds())
}

// Streamed implements gateway.Observer.
func (g *Gateway) Streamed(change int) { g.open.Add(int64(change)) }

// Open is how many streams are open.
func (g *Gateway) Open() int { return int(g.open.Load()) }
