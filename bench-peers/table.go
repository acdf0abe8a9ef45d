package main

import (
	"fmt"
	"strings"

	"turnstile/bench/peers/internal/plot"
)

// tables are the results as Markdown: a table for each setting.
func tables(all results, chosen []peer) string {
	var b strings.Builder
	for _, s := range settings() {
		fmt.Fprintf(&b, "\n| %s | messages/s | of asynq's | once queued | processor time for a message, client + server | of asynq's | lost, twice | out of order | at once |\n|---|---|---|---|---|---|---|---|---|\n", s)
		base := all[s][asynqRaw]
		for _, p := range chosen {
			fmt.Fprintf(&b, "| %s | %s |\n", p.name, strings.Join(cells(all[s][p.name], base), " | "))
		}
	}
	return b.String()
}

// cells are an entry's row.
func cells(e, base *entry) []string {
	if e.notRun != "" {
		return []string{"not run: " + strings.ReplaceAll(e.notRun, "|", "/"), "", "", "", "", "", "", ""}
	}
	once := "starts at once"
	if e.spread(handled).median > 0 {
		once = plot.Number(e.spread(handled).median)
	}
	v := e.verdict()
	return []string{
		e.spread(rate).String(),
		times(e, base, rate),
		once,
		fmt.Sprintf("%s us: %s + %s", e.spread(processor), plot.Number(e.spread(clientOf).median), plot.Number(e.spread(serverOf).median)),
		times(e, base, processor),
		fmt.Sprintf("%d, %d", v.Lost+v.Unknown, v.Twice),
		plot.Number(float64(v.OutOfOrder)),
		plot.Number(float64(v.Overlaps)),
	}
}

// String is the median with its range.
func (s spread) String() string {
	return fmt.Sprintf("%s (%s-%s)", plot.Number(s.median), plot.Number(s.low), plot.Number(s.high))
}

// times is a figure as a multiple of another entry's.
func times(e, base *entry, of func(figures) float64) string {
	if base == nil || base.notRun != "" || e == base {
		return ""
	}
	return fmt.Sprintf("%.2f x", e.spread(of).median/base.spread(of).median)
}
