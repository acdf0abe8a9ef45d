package session

// Usage is what an agent's turn has cost, as far as the agent tells. A zero means
// that it did not.
type Usage struct {
	Model        string  `json:"model,omitempty"`
	InputTokens  int64   `json:"input_tokens,omitempty"`  // read, the cached ones among them
	CachedTokens int64   `json:"cached_tokens,omitempty"` // of the input, those read from a cache
	OutputTokens int64   `json:"output_tokens,omitempty"` // written, those of its thinking among them
	CostUSD      float64 `json:"cost_usd,omitempty"`

	// How full the model's context is now, of how much.
	ContextTokens int64 `json:"context_tokens,omitempty"`
	ContextLimit  int64 `json:"context_limit,omitempty"`
}

// Plus is the usage of both: tokens and cost are added up, of the rest the later
// one counts.
func (u Usage) Plus(later Usage) Usage {
	later.InputTokens += u.InputTokens
	later.CachedTokens += u.CachedTokens
	later.OutputTokens += u.OutputTokens
	later.CostUSD += u.CostUSD
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
