package lab

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// Report is a benchmark's table: figures and their targets.
type Report struct {
	title string
	rows  []row
}

type row struct{ figure, measured, reach, met string }

// Add adds a figure without a target.
func (r *Report) Add(figure, measured string, args ...any) {
	r.rows = append(r.rows, row{figure: figure, measured: fmt.Sprintf(measured, args...)})
}

// Reach adds a figure with a target.
func (r *Report) Reach(figure string, met bool, reach, measured string, args ...any) {
	r.Add(figure, measured, args...)
	last := &r.rows[len(r.rows)-1]
	last.reach, last.met = reach, "NO"
	if met {
		last.met = "yes"
	}
}

// Text prints the table on a terminal.
func (r *Report) Text(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "%s\tmeasured\tto reach\tmet\n", r.title)
	for _, l := range r.rows {
		fmt.Fprintf(t, "  %s\t%s\t%s\t%s\n", l.figure, l.measured, l.reach, l.met)
	}
	return t.Flush()
}

// Markdown prints the table as Markdown.
func (r *Report) Markdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "| %s | measured | to reach | met |\n|---|---|---|---|\n", r.title)
	for _, l := range r.rows {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", l.figure, l.measured, l.reach, l.met)
	}
	_, err := io.WriteString(w, b.String()+"\n")
	return err
}

// Short rounds a duration for reading.
func Short(d time.Duration) time.Duration {
	switch {
	case d > 10*time.Second:
		return d.Round(100 * time.Millisecond)
	case d > time.Second:
		return d.Round(10 * time.Millisecond)
	}
	return d.Round(10 * time.Microsecond)
}
