package session

import "math"

// Usage is the cost of a turn, as the agent reports it. A zero field means that the agent did not
// report it.
type Usage struct {
	Model        string  `json:"model,omitempty"`
	InputTokens  int64   `json:"input_tokens,omitempty"`  // including the cached ones
	CachedTokens int64   `json:"cached_tokens,omitempty"` // input tokens that were read from a cache
	OutputTokens int64   `json:"output_tokens,omitempty"` // including those of the model's thinking
	CostUSD      float64 `json:"cost_usd,omitempty"`

	ContextTokens int64 `json:"context_tokens,omitempty"` // in the model's context at the end
	ContextLimit  int64 `json:"context_limit,omitempty"`  // the context's size
}

// Plus returns the sum of the tokens and costs, or the highest number if that does not fit. The other fields are those of later, or of u where
// later has none.
func (u Usage) Plus(later Usage) Usage {
	later.InputTokens = plus(u.InputTokens, later.InputTokens)
	later.CachedTokens = plus(u.CachedTokens, later.CachedTokens)
	later.OutputTokens = plus(u.OutputTokens, later.OutputTokens)
	later.CostUSD = min(max(u.CostUSD+later.CostUSD, -math.MaxFloat64), math.MaxFloat64)
	if later.Model == "" {
		later.Model = u.Model
	}
	if later.ContextTokens == 0 {
		later.ContextTokens = u.ContextTokens
	}
	if later.ContextLimit == 0 {
		later.ContextLimit = u.ContextLimit
	}
	return later
}

func plus(a, b int64) int64 {
	switch {
	case b > 0 && a > math.MaxInt64-b:
		return math.MaxInt64
	case b < 0 && a < math.MinInt64-b:
		return math.MinInt64
	}
	return a + b
}
