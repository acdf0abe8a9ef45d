package main

import "turnstile/bench/peers/internal/plot"

// mark follows the figures of a peer that broke the order, or ran two messages of a session at
// once.
const mark = "†"

// ratePicture and processorPicture are the results as pictures: a panel for each kind of persistence.
func ratePicture(all results, chosen []peer) plot.Chart {
	return picture(all, chosen, "Messages a second, from the first one's send to the last one's end: longer is better", "messages/s", nil,
		func(e *entry) ([]float64, spread) {
			s := e.spread(rate)
			return []float64{s.median}, s
		})
}

func processorPicture(all results, chosen []peer) plot.Chart {
	return picture(all, chosen, "Processor time for each message: shorter is better", "us", []string{"client", "server"},
		func(e *entry) ([]float64, spread) {
			// The medians of both need not add up to the median of their sum.
			whole, client, server := e.spread(processor), e.spread(clientOf).median, e.spread(serverOf).median
			share := client / (client + server)
			return []float64{whole.median * share, whole.median * (1 - share)}, whole
		})
}

func picture(all results, chosen []peer, title, unit string, parts []string, bar func(*entry) ([]float64, spread)) plot.Chart {
	c := plot.Chart{Title: title, Unit: unit, Parts: parts, Note: mark + " broke the order of a session, or ran two of its messages at once."}
	shapes := chosenShapes()
	for _, shape := range shapes {
		c.Series = append(c.Series, shapeName(shape))
	}
	for _, durable := range []bool{false, true} {
		p := plot.Panel{Title: kind(durable)}
		for _, peer := range chosen {
			row := plot.Row{Name: peer.name}
			for _, shape := range shapes {
				row.Bars = append(row.Bars, barOf(all[setting{durable, shape}][peer.name], bar))
			}
			p.Rows = append(p.Rows, row)
		}
		c.Panels = append(c.Panels, p)
	}
	return c
}

func barOf(e *entry, bar func(*entry) ([]float64, spread)) plot.Bar {
	if e.notRun != "" {
		return plot.Bar{Missing: "not run: " + cut(e.notRun)}
	}
	parts, s := bar(e)
	b := plot.Bar{Parts: parts, Low: s.low, High: s.high}
	if v := e.verdict(); v.OutOfOrder > 0 || v.Overlaps > 0 {
		b.Mark = mark
	}
	return b
}

// reasonLength bounds a reason in a picture. The table has all of it.
const reasonLength = 80

func cut(reason string) string {
	runes := []rune(reason)
	if len(runes) <= reasonLength {
		return reason
	}
	return string(runes[:reasonLength-1]) + "…"
}
