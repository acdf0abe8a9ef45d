package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"turnstile/internal/outbox"
)

// deliveryAges are the bounds of the buckets, in seconds: up to three days.
var deliveryAges = []float64{0.05, 0.25, 1, 5, 30, 60, 300, 1800, 3600, 21600, 86400, 259200}

// Deliveries returns the outbox.Observer of one deliverer. Its label is the name of a destination, so
// the file of destinations bounds the number of series. Call it once.
func (m *Metrics) Deliveries() outbox.Observer {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	o := &deliveries{
		age: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "turnstile_delivery_age_seconds", Buckets: deliveryAges,
			Help: "How old deliveries were when their destination took them.",
		}, []string{"destination"}),
		dead: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "turnstile_deliveries_dead_total",
			Help: "Deliveries that became dead letters: refused too often, or too old at their last attempt.",
		}, []string{"destination"}),
		failed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "turnstile_delivery_failures_total",
			Help: "Attempts without a response of 2xx.",
		}, []string{"destination", "reason"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "turnstile_deliveries_refused_total",
			Help: "Deliveries that were not sent: forged, or of a session that the destination does not admit.",
		}, []string{"destination"}),
		unknown: counter("turnstile_deliveries_unknown_total",
			"How often a session had deliveries for a destination that this process does not know."),
		redis: counter("turnstile_delivery_redis_failures_total", "Failures of the deliverer's work in Redis. It tries again."),
	}
	m.registry.MustRegister(o.age, o.dead, o.failed, o.refused, o.unknown, o.redis)
	return o
}

// WatchDeliveries exports a deliverer's state at the time of each scrape. Call it once.
func (m *Metrics) WatchDeliveries(d *outbox.Deliverer) {
	m.registry.MustRegister(oldest{d, prometheus.NewDesc("turnstile_delivery_oldest_age_seconds",
		"The age of the oldest delivery that this process has seen and not delivered, 0 if there is none.", []string{"destination"}, nil)})
}

// deliveries implements outbox.Observer.
type deliveries struct {
	age            *prometheus.HistogramVec
	dead, failed   *prometheus.CounterVec
	refused        *prometheus.CounterVec
	unknown, redis prometheus.Counter
}

func (o *deliveries) DeliveryDone(destination string, delivered bool, age time.Duration) {
	if delivered {
		o.age.WithLabelValues(destination).Observe(age.Seconds())
	} else {
		o.dead.WithLabelValues(destination).Inc()
	}
}

func (o *deliveries) DeliveryFailed(destination, why string) {
	o.failed.WithLabelValues(destination, why).Inc()
}

func (o *deliveries) DeliveryRefused(destination string) {
	o.refused.WithLabelValues(destination).Inc()
}

func (o *deliveries) UnknownDestinations(n int) { o.unknown.Add(float64(n)) }

func (o *deliveries) DeliveryRedisFailed() { o.redis.Inc() }

// oldest reads the ages for each scrape.
type oldest struct {
	deliverer *outbox.Deliverer
	age       *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (o oldest) Describe(ch chan<- *prometheus.Desc) { ch <- o.age }

// Collect implements prometheus.Collector.
func (o oldest) Collect(ch chan<- prometheus.Metric) {
	for destination, age := range o.deliverer.Oldest() {
		ch <- prometheus.MustNewConstMetric(o.age, prometheus.GaugeValue, age.Seconds(), destination)
	}
}
