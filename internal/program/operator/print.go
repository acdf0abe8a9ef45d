package operator

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"

	"turnstile/internal/text/printable"
)

// say writes one line for a person and makes its names and texts printable.
func (p *Program) say(format string, args ...any) error {
	_, err := fmt.Fprintln(p.stdout, printable.Line(fmt.Sprintf(format, args...)))
	return err
}

// Complain writes one line to stderr.
func (p *Program) Complain(line string) { fmt.Fprintln(p.stderr, p.Name+": "+printable.Line(line)) }

// printJSON writes a value as one line of JSON, without escapes for HTML.
func (p *Program) printJSON(v any) error {
	enc := json.NewEncoder(printable.NewJSONWriter(p.Raw.Stdout))
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// table lays out rows for a person.
type table struct {
	w   *tabwriter.Writer
	err error
}

func (p *Program) table() *table { return &table{w: tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)} }

// row adds a row. Line breaks in cells become spaces.
func (t *table) row(cells ...any) {
	texts := make([]string, len(cells))
	for i, cell := range cells {
		texts[i] = printable.Line(fmt.Sprint(cell))
	}
	_, err := fmt.Fprintln(t.w, strings.Join(texts, "\t"))
	t.err = cmp.Or(t.err, err)
}

// end writes the table, and returns the first error.
func (t *table) end() error { return cmp.Or(t.err, t.w.Flush()) }
