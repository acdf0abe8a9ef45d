//go:build linux

package main

import (
	"encoding/xml"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	charWidth  = 8.4 // of a monospaced font of 14 px
	lineHeight = 19
	margin     = 16
	bar        = 30 // the height of a pane's title bar
	width      = 2*margin + columns*charWidth

	// Who cannot see motion, or asked for less of it, sees the last picture.
	style = `text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono","Liberation Mono",monospace;fill:#d0d7de;white-space:pre}
.bold{font-weight:700}.faint{fill:#8b949e}.red{fill:#ff7b72}.green{fill:#7ee787}.yellow{fill:#e3b341}.cyan{fill:#79c0ff}
.title{font-size:12px;fill:#8b949e}
.v{visibility:hidden}.last{visibility:visible}
.v{animation-duration:%.2fs;animation-timing-function:step-end;animation-iteration-count:infinite}
@media (prefers-reduced-motion:reduce){.v{animation:none!important}}
`
)

// draw is the panes, one below the other, as an SVG that begins again after length.
func draw(length time.Duration, panes ...*pane) string {
	var body, keyframes strings.Builder
	top, drawn := 0.0, 0
	for _, p := range panes {
		height := float64(bar + p.rows*lineHeight + margin)
		fmt.Fprintf(&body, `<rect y="%g" width="%g" height="%g" rx="8" fill="#0d1117"/>`, top, width, height)
		fmt.Fprintf(&body, `<path d="M0 %gH%g" stroke="#30363d"/>`, top+bar, width)
		for i, colour := range []string{"#ff5f57", "#febc2e", "#28c840"} {
			fmt.Fprintf(&body, `<circle cx="%d" cy="%g" r="5" fill="%s"/>`, margin+4+18*i, top+bar/2, colour)
		}
		fmt.Fprintf(&body, `<text class="title" x="%g" y="%g" text-anchor="middle">%s</text>`+"\n", width/2, top+bar/2+4, escaped(p.title))
		for y, versions := range p.history {
			baseline := top + float64(bar+(y+1)*lineHeight)
			for i, v := range versions {
				if len(v.cells) == 0 {
					continue
				}
				class, until := "v", length
				if i+1 < len(versions) {
					until = versions[i+1].from
				} else {
					class = "v last"
				}
				name := fmt.Sprintf("k%d", drawn)
				drawn++
				keyframes.WriteString(shown(name, v.from, until, length))
				fmt.Fprintf(&body, `<text class="%s" style="animation-name:%s" x="%d" y="%g"%s>%s</text>`+"\n",
					class, name, margin, baseline, fit(v.cells), spans(v.cells, p.host))
			}
		}
		top += height + margin/2
	}
	height := top - margin/2
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" width="%g" height="%g" role="img">`+"\n"+
		"<title>A worker and a sender of Turnstile, recorded</title>\n<style>"+style+"%s</style>\n%s</svg>\n",
		width, height, width, height, length.Seconds(), keyframes.String(), body.String())
}

// shown is an animation that shows something between two moments.
func shown(name string, from, until, length time.Duration) string {
	percent := func(d time.Duration) string {
		return fmt.Sprintf("%.3f%%", 100*d.Seconds()/length.Seconds())
	}
	end := ""
	if until < length {
		end = percent(until) + "{visibility:hidden}"
	}
	return fmt.Sprintf("@keyframes %s{0%%{visibility:hidden}%s{visibility:visible}%s}\n", name, percent(from), end)
}

// fit keeps columns in their places where the reader's font is wider or narrower.
func fit(cells []cell) string {
	return fmt.Sprintf(` textLength="%.1f"`, float64(len(cells))*charWidth)
}

func spans(cells []cell, host string) string {
	var b strings.Builder
	for i := 0; i < len(cells); {
		class, text := cells[i].class, ""
		for ; i < len(cells) && cells[i].class == class; i++ {
			text += string(cells[i].char)
		}
		text = withoutHost(text, host)
		if class == "" {
			b.WriteString(escaped(text))
			continue
		}
		fmt.Fprintf(&b, `<tspan class="%s">%s</tspan>`, class, escaped(text))
	}
	return b.String()
}

// withoutHost takes the name of the recording machine out of the names of workers,
// and leaves the columns where they are.
func withoutHost(text, host string) string {
	if host == "" {
		return text
	}
	other := ("vm" + strings.Repeat("0", len(host)))[:len(host)]
	return strings.ReplaceAll(text, host+"-", other+"-")
}

func escaped(text string) string {
	var b strings.Builder
	if err := xml.EscapeText(&b, []byte(strings.ToValidUTF8(text, string(utf8.RuneError)))); err != nil {
		panic(err) // a strings.Builder takes everything
	}
	return b.String()
}
