package cli

import (
	"testing"

	"turnstile/pkg/session"
)

func TestUsageSinceATotal(t *testing.T) {
	t.Parallel()
	total := session.Usage{Model: "m", InputTokens: 10, CachedTokens: 4, OutputTokens: 3, CostUSD: 2}
	if got := since(total, session.Usage{InputTokens: 8, CachedTokens: 4, OutputTokens: 1, CostUSD: 0.5}); got != (session.Usage{Model: "m", InputTokens: 2, OutputTokens: 2, CostUSD: 1.5}) {
		t.Errorf("%+v", got)
	}
	if got := since(total, session.Usage{InputTokens: 11}); got != total {
		t.Errorf("a count that began anew: %+v", got)
	}
}
