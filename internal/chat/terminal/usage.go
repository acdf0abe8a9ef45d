package terminal

import (
	"fmt"
	"strings"

	"turnstile/internal/text/printable"
	"turnstile/pkg/session"
)

// usageLine returns a turn's usage in one line; empty if the agent did not report it.
func usageLine(u session.Usage) string {
	var parts []string
	if u.InputTokens > 0 {
		text := count(u.InputTokens) + " tokens in"
		if u.CachedTokens > 0 {
			text += " (" + count(u.CachedTokens) + " cached)"
		}
		parts = append(parts, text)
	}
	if u.OutputTokens > 0 {
		parts = append(parts, count(u.OutputTokens)+" out")
	}
	switch {
	case u.CostUSD >= 1:
		parts = append(parts, fmt.Sprintf("$%.2f", u.CostUSD))
	case u.CostUSD > 0:
		parts = append(parts, fmt.Sprintf("$%.4f", u.CostUSD))
	}
	if u.ContextTokens > 0 && u.ContextLimit > 0 {
		parts = append(parts, fmt.Sprintf("context %d%% full", 100*u.ContextTokens/u.ContextLimit))
	}
	if u.Model != "" {
		parts = append(parts, cut(printable.Line(u.Model), nameLen))
	}
	if len(parts) == 0 {
		return ""
	}
	return "used: " + strings.Join(parts, ", ")
}

// count formats a number of tokens, exactly while it is short.
func count(n int64) string {
	switch {
	case n < 10_000:
		return fmt.Sprint(n)
	case n < 999_950:
		return strings.Replace(fmt.Sprintf("%.1fk", float64(n)/1e3), ".0", "", 1)
	}
	return strings.Replace(fmt.Sprintf("%.1fM", float64(n)/1e6), ".0", "", 1)
}
