package metrics

import (
	"sync"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"turnstile/pkg/session"
)

// Agents name their models, so their number and length are bounded. Further ones count as otherModel.
const (
	mostModels   = 50
	longestModel = 100 // bytes
	otherModel   = "other"
)

// The bounds of one report: an agent may report any number.
const (
	mostTokens = 1 << 40
	mostCost   = 1e6
)

// usage counts the tokens and the cost that agents report.
type usage struct {
	tokens, cost *prometheus.CounterVec

	mu     sync.Mutex
	models map[string]bool
}

func newUsage() *usage {
	return &usage{
		tokens: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "turnstile_tokens_total",
			Help: "Tokens that agents have reported on this worker. Those with kind cached were read from a cache, and are not counted as input again.",
		}, []string{"agent", "model", "kind"}),
		cost: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "turnstile_cost_usd_total",
			Help: "Cost that agents have reported on this worker, in US dollars.",
		}, []string{"agent", "model"}),
		models: map[string]bool{"": true, otherModel: true},
	}
}

// used counts one report.
func (u *usage) used(agent string, one session.Usage) {
	model := u.model(one.Model)
	bound := func(n int64) int64 { return min(max(n, 0), mostTokens) }
	input, output := bound(one.InputTokens), bound(one.OutputTokens)
	cached := min(bound(one.CachedTokens), input)
	for kind, n := range map[string]int64{"input": input - cached, "cached": cached, "output": output} {
		if n > 0 {
			u.tokens.WithLabelValues(agent, model, kind).Add(float64(n))
		}
	}
	if one.CostUSD > 0 {
		u.cost.WithLabelValues(agent, model).Add(min(one.CostUSD, mostCost))
	}
}

// model returns the label of a model's name; "" is an agent that names none.
func (u *usage) model(name string) string {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case u.models[name]:
		return name
	case len(u.models) >= mostModels+2, len(name) > longestModel, !utf8.ValidString(name):
		return otherModel
	}
	u.models[name] = true
	return name
}
