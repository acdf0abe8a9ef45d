package titles_test

import (
	"strings"
	"testing"

	"turnstile/internal/titles"
)

func TestClean(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", titles.Max)
	for text, want := range map[string]string{
		"The build":                "The build",
		" The\n build\t":           "The build",
		" \n":                      "",
		long:                       long,
		long + "x":                 long,
		long[:len(long)-2] + " xy": long[:len(long)-2],
	} {
		got := titles.Clean(text)
		if got != want || titles.Clean(got) != got {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
