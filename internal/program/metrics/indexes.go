package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"turnstile/pkg/admin"
)

// readTimeout bounds how long a scrape waits for Redis.
const readTimeout = time.Second

// indexes reads the sessions' indexes for each scrape. If Redis does not respond,
// turnstile_redis_up is 0 and the other series are absent: old numbers would look current.
type indexes struct {
	read                       func(context.Context) (admin.Backlog, error)
	up, sessions, oldest, late *prometheus.Desc
	owed, owedOldest           *prometheus.Desc
	parked, questions, asked   *prometheus.Desc
	dead                       *prometheus.Desc
}

func newIndexes(read func(context.Context) (admin.Backlog, error)) *indexes {
	return &indexes{
		read: read,
		up:   prometheus.NewDesc("turnstile_redis_up", "1: Redis has responded to this scrape within a second.", nil, nil),
		sessions: prometheus.NewDesc("turnstile_sessions",
			"Sessions in an index, the same for all workers of one Redis: ready wait for a free slot, due for their time, owned are run, were a moment ago or are to be recovered, outbox have deliveries.",
			[]string{"index"}, nil),
		oldest: prometheus.NewDesc("turnstile_ready_oldest_age_seconds",
			"How long the first session in ready has waited for a free slot, 0 if none does; the same for all workers of one Redis.", nil, nil),
		late: prometheus.NewDesc("turnstile_outbox_late_seconds",
			"How long the first session in outbox has waited for a deliverer to look at it, 0 if none does; the same for all workers of one Redis.", nil, nil),
		parked: prometheus.NewDesc("turnstile_turns_parked",
			"Turns that wait without a worker, for a decision or a retry, as of the last sweep; the same for all workers of one Redis.", nil, nil),
		questions: prometheus.NewDesc("turnstile_questions_open",
			"Questions that wait for a decision, as of the last sweep; the same for all workers of one Redis.", nil, nil),
		dead: prometheus.NewDesc("turnstile_dead_letters",
			"Dead letters of all sessions, as of the last sweep; the same for all workers of one Redis.", nil, nil),
		asked: prometheus.NewDesc("turnstile_question_oldest_age_seconds",
			"How long the oldest open question has waited for its decision, as of the last sweep, 0 if none is open; the same for all workers of one Redis.", nil, nil),
		owed: prometheus.NewDesc("turnstile_destination_owed",
			"Outcomes that all sessions owe a destination, with deliveries that wait, as last counted; the same for all workers of one Redis.", []string{"destination"}, nil),
		owedOldest: prometheus.NewDesc("turnstile_destination_oldest_age_seconds",
			"How long the oldest delivery to a destination has waited, as last counted, 0 if none waits; the same for all workers of one Redis.", []string{"destination"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (x *indexes) Describe(ch chan<- *prometheus.Desc) {
	ch <- x.up
	ch <- x.sessions
	ch <- x.oldest
	ch <- x.late
	ch <- x.parked
	ch <- x.questions
	ch <- x.asked
	ch <- x.dead
	ch <- x.owed
	ch <- x.owedOldest
}

// Collect implements prometheus.Collector.
func (x *indexes) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	b, err := x.read(ctx)
	if err != nil {
		ch <- prometheus.MustNewConstMetric(x.up, prometheus.GaugeValue, 0)
		return
	}
	ch <- prometheus.MustNewConstMetric(x.up, prometheus.GaugeValue, 1)
	for index, n := range map[string]int64{"ready": b.Ready, "due": b.Due, "owned": b.Owned, "outbox": b.Outbox} {
		ch <- prometheus.MustNewConstMetric(x.sessions, prometheus.GaugeValue, float64(n), index)
	}
	ch <- prometheus.MustNewConstMetric(x.oldest, prometheus.GaugeValue, b.Oldest.Seconds())
	ch <- prometheus.MustNewConstMetric(x.late, prometheus.GaugeValue, b.Late.Seconds())
	ch <- prometheus.MustNewConstMetric(x.parked, prometheus.GaugeValue, float64(b.Parked))
	ch <- prometheus.MustNewConstMetric(x.questions, prometheus.GaugeValue, float64(b.Questions))
	ch <- prometheus.MustNewConstMetric(x.dead, prometheus.GaugeValue, float64(b.DeadLetters))
	ch <- prometheus.MustNewConstMetric(x.asked, prometheus.GaugeValue, b.Asked.Seconds())
	for name, d := range b.Destinations {
		ch <- prometheus.MustNewConstMetric(x.owed, prometheus.GaugeValue, float64(d.Count), name)
		ch <- prometheus.MustNewConstMetric(x.owedOldest, prometheus.GaugeValue, d.Oldest.Seconds(), name)
	}
}
