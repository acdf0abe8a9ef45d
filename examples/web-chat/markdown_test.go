package main

import (
	"net/http/httptest"
	"strings"
	"testing"
)

// A text whose rendering would take seconds is not rendered: the page shows it as it is.
func TestTooMuchMarkdown(t *testing.T) {
	t.Parallel()
	row := strings.Repeat("|a", 8000) + "|\n"
	for name, c := range map[string]struct {
		text   string
		status int
	}{
		"a wide table":     {row + strings.Repeat("|-", 8000) + "|\n" + strings.Repeat("|\n", 3000), 400},
		"many signs":       {strings.Repeat("*a _b [c", 5000), 400},
		"deep quotes":      {strings.Repeat("> ", 7000), 400},
		"deep lists":       {strings.Repeat("- ", 7000), 400},
		"lists with tabs":  {strings.Repeat("1.\t", 7000), 400},
		"a long text":      {strings.Repeat("A line of words.\n", 1500), 200},
		"a common table":   {strings.Repeat("|a|b|c|\n", 100), 200},
		"a fenced listing": {"```\n" + strings.Repeat("if (a) { b = c }\n", 2000) + "```", 200},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := httptest.NewRecorder()
			render(w, httptest.NewRequestWithContext(t.Context(), "POST", "/markdown", strings.NewReader(c.text)))
			if w.Code != c.status {
				t.Errorf("status %d, want %d", w.Code, c.status)
			}
		})
	}
}
