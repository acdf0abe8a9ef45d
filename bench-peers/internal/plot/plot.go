// Package plot draws horizontal bars as an SVG: panels of rows, a bar for each series in a row, which may
// be stacked of parts, and the range of its measurements as a whisker. Every axis begins at zero. The
// picture follows the reader's light or dark mode.
package plot

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"math"
	"strings"
)

// Chart is a picture.
type Chart struct {
	Title  string
	Unit   string   // of the axes
	Series []string // the bars of a row, at most two
	Parts  []string // of each bar, at most two; the first is drawn in full colour
	Note   string   // the meaning of a bar's mark
	Panels []Panel
}

// Panel is rows on one axis.
type Panel struct {
	Title string
	Rows  []Row
}

// Row has the bars of one subject, one for each series.
type Row struct {
	Name string
	Bars []Bar
}

// Bar is a measurement. Its length is the sum of its parts.
type Bar struct {
	Parts     []float64
	Low, High float64 // the range of the sum
	Mark      string  // after the value
	Missing   string  // why there is no bar
}

func (b Bar) length() (sum float64) {
	for _, part := range b.Parts {
		sum += part
	}
	return sum
}

// All lengths are in pixels.
const (
	width   = 860
	labels  = 190 // the names' column
	right   = 150 // for the value after the longest bar
	barHigh = 13
	rowGap  = 10
	top     = 78
	titled  = 28 // a panel's title
	axis    = 34 // a panel's axis, with its numbers
)

const style = `<style>
text { font: 12px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #1f2328 }
.title { font-size: 16px; font-weight: 600 }
.panel { font-weight: 600 }
.quiet { fill: #59636e }
.back { fill: #ffffff }
.grid { stroke: #d1d9e0 }
.whisker { stroke: #1f2328 }
.s0 { fill: #0969da } .s0.p1 { fill: #80b8f5 }
.s1 { fill: #bc4c00 } .s1.p1 { fill: #f0a679 }
@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc }
  .quiet { fill: #9198a1 }
  .back { fill: #0d1117 }
  .grid { stroke: #3d444d }
  .whisker { stroke: #f0f6fc }
  .s0 { fill: #4493f8 } .s0.p1 { fill: #1f4f8f }
  .s1 { fill: #db6d28 } .s1.p1 { fill: #7d3c12 }
}
</style>
`

// SVG draws the chart.
func (c Chart) SVG() []byte {
	var b bytes.Buffer
	high := top
	for _, p := range c.Panels {
		high += p.height()
	}
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="%s">`+"\n", width, high, width, high, escape(c.Title))
	b.WriteString(style)
	fmt.Fprintf(&b, `<rect class="back" width="%d" height="%d"/>`+"\n", width, high)
	text(&b, 16, 26, "title", "start", c.Title)
	c.legend(&b)
	y := top
	for _, p := range c.Panels {
		c.panel(&b, p, y)
		y += p.height()
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

func (p Panel) height() int {
	high := titled + axis
	for _, r := range p.Rows {
		high += len(r.Bars)*barHigh + rowGap
	}
	return high
}

// legend names each series and part, and explains the whiskers and the mark.
func (c Chart) legend(b *bytes.Buffer) {
	x := 16
	for i, series := range c.Series {
		for j := range max(1, len(c.Parts)) {
			name := series
			if len(c.Parts) > 0 {
				name += ": " + c.Parts[j]
			}
			fmt.Fprintf(b, `<rect class="%s" x="%d" y="38" width="12" height="12"/>`+"\n", class(i, j), x)
			text(b, x+17, 48, "", "start", name)
			x += 32 + 7*len(name)
		}
	}
	note := "Bars are medians, whiskers ranges."
	if c.Note != "" {
		note += " " + c.Note
	}
	text(b, 16, 68, "quiet", "start", note)
}

func class(series, part int) string { return fmt.Sprintf("s%d p%d", series, part) }

// panel draws a panel from y on.
func (c Chart) panel(b *bytes.Buffer, p Panel, y int) {
	text(b, 16, y+16, "panel", "start", p.Title)
	y += titled
	bottom := y + p.height() - titled - axis
	longest := 0.0
	for _, r := range p.Rows {
		for _, bar := range r.Bars {
			longest = max(longest, bar.length(), bar.High)
		}
	}
	step := stepFor(longest)
	end := max(step, math.Ceil(longest/step)*step)
	at := func(value float64) float64 { return labels + value/end*(width-labels-right) }
	for tick := 0.0; tick <= end+step/2; tick += step {
		fmt.Fprintf(b, `<line class="grid" x1="%.1f" y1="%d" x2="%.1f" y2="%d"/>`+"\n", at(tick), y, at(tick), bottom)
		text(b, int(at(tick)), bottom+15, "quiet", "middle", Number(tick))
	}
	text(b, int(at(end))+44, bottom+15, "quiet", "start", c.Unit)
	for _, r := range p.Rows {
		text(b, labels-8, y+(len(r.Bars)*barHigh+rowGap)/2+4, "", "end", r.Name)
		for i, bar := range r.Bars {
			drawBar(b, bar, i, y+rowGap/2+i*barHigh, at)
		}
		y += len(r.Bars)*barHigh + rowGap
	}
}

// drawBar draws the bar of a series from y on.
func drawBar(b *bytes.Buffer, bar Bar, series, y int, at func(float64) float64) {
	if bar.Missing != "" {
		text(b, labels+6, y+10, "quiet", "start", bar.Missing)
		return
	}
	from := 0.0
	for i, part := range bar.Parts {
		fmt.Fprintf(b, `<rect class="%s" x="%.1f" y="%d" width="%.1f" height="%d"/>`+"\n", class(series, i), at(from), y, at(from+part)-at(from), barHigh-2)
		from += part
	}
	middle := float64(y) + float64(barHigh-2)/2
	low, high := at(bar.Low), at(bar.High)
	fmt.Fprintf(b, `<path class="whisker" fill="none" d="M%.1f %.1fH%.1fM%.1f %.1fv5M%.1f %.1fv5"/>`+"\n", low, middle, high, low, middle-2.5, high, middle-2.5)
	text(b, int(max(high, at(from)))+6, y+10, "", "start", strings.TrimSpace(Number(from)+" "+bar.Mark))
}

func text(b *bytes.Buffer, x, y int, class, anchor, what string) {
	fmt.Fprintf(b, `<text x="%d" y="%d" class="%s" text-anchor="%s">%s</text>`+"\n", x, y, class, anchor, escape(what))
}

func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a Builder takes all
	return b.String()
}

// stepFor is a round distance of at most five ticks to the longest bar.
func stepFor(longest float64) float64 {
	if longest <= 0 {
		return 1
	}
	unit := math.Pow(10, math.Floor(math.Log10(longest/5)))
	for _, times := range []float64{1, 2, 5} {
		if longest/(unit*times) <= 5 {
			return unit * times
		}
	}
	return unit * 10
}

// Number writes a number without fraction, with commas.
func Number(value float64) string {
	digits := fmt.Sprintf("%.0f", value)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
