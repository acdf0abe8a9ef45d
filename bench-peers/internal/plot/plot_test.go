package plot_test

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"turnstile/bench/peers/internal/plot"
)

func chart() plot.Chart {
	return plot.Chart{
		Title: "Rate", Unit: "messages/s", Series: []string{"one", "other"}, Note: "* is a mark.",
		Panels: []plot.Panel{{Title: "panel <1>", Rows: []plot.Row{
			{Name: "a & b", Bars: []plot.Bar{{Parts: []float64{1000, 500}, Low: 1400, High: 1600, Mark: "*"}, {Parts: []float64{750}, Low: 700, High: 800}}},
			{Name: "c", Bars: []plot.Bar{{Missing: "not run: no <program>"}, {Missing: "not run"}}},
		}}},
	}
}

func TestPictureIsXML(t *testing.T) {
	t.Parallel()
	d := xml.NewDecoder(strings.NewReader(string(chart().SVG())))
	for {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// A bar is as long as its value says on the axis, which ends at 2,000 here and is 520 pixels long.
func TestBarsAreInProportion(t *testing.T) {
	t.Parallel()
	svg := string(chart().SVG())
	for _, want := range []string{
		`<rect class="s0 p0" x="190.0" y="111" width="260.0" height="11"/>`,
		`<rect class="s0 p1" x="450.0" y="111" width="130.0" height="11"/>`,
		`<rect class="s1 p0" x="190.0" y="124" width="195.0" height="11"/>`,
		`d="M554.0 116.5H606.0`, // the range
		`>1,500 *</text>`, `>2,000</text>`, `>0</text>`, `>messages/s</text>`,
		`>not run: no &lt;program&gt;</text>`, `>a &amp; b</text>`,
	} {
		if !strings.Contains(svg, want) {
			t.Errorf("no %s in\n%s", want, svg)
		}
	}
}

func TestNumber(t *testing.T) {
	t.Parallel()
	for value, want := range map[float64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", 99.6: "100"} {
		if got := plot.Number(value); got != want {
			t.Errorf("%v is %s, want %s", value, got, want)
		}
	}
}

func TestNothingMeasured(t *testing.T) {
	t.Parallel()
	c := chart()
	c.Panels[0].Rows = c.Panels[0].Rows[1:]
	if svg := string(c.SVG()); strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
		t.Error(svg)
	}
}
