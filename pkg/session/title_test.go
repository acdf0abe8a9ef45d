package session_test

import (
	"strings"
	"testing"

	"turnstile/pkg/session"
)

func TestCleanTitle(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", session.MaxTitle)
	for text, want := range map[string]string{
		"The build":                "The build",
		" The\n build\t":           "The build",
		" \n":                      "",
		long:                       long,
		long + "x":                 long,
		long[:len(long)-2] + " xy": long[:len(long)-2],
	} {
		got := session.CleanTitle(text)
		if got != want || session.CleanTitle(got) != got {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
