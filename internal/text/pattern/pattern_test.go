package pattern_test

import (
	"regexp"
	"strings"
	"testing"

	"turnstile/internal/text/pattern"
)

// Every pattern and every text of a few letters, against the regular expression that means the same.
func TestFits(t *testing.T) {
	t.Parallel()
	patterns, texts := words("ab*", 5), words("ab", 5)
	for _, p := range patterns {
		same := regexp.MustCompile("^" + strings.ReplaceAll(p, "*", ".*") + "$")
		for _, text := range texts {
			if got := pattern.Fits(p, text); got != same.MatchString(text) {
				t.Fatalf("%q fits %q: %v", text, p, got)
			}
		}
	}
}

// The patterns of sessions as operators write them.
func TestKeys(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern, key string
		want         bool
	}{
		{"*", "any", true}, {"web:*", "web:1:2", true}, {"web:*", "web", false}, {"*:42", "x:42", true}, {"*:42", "x:421", false},
		{"agent:*:dm:*", "agent:main:telegram:dm:42", true}, {"agent:*:dm:*", "agent:main:group:42", false},
	} {
		if got := pattern.Fits(c.pattern, c.key); got != c.want {
			t.Errorf("%s fits %s: %v", c.key, c.pattern, got)
		}
	}
}

// words are all words of at most so many of the letters.
func words(letters string, longest int) []string {
	all := []string{""}
	for from, n := 0, 0; n < longest; n++ {
		to := len(all)
		for _, word := range all[from:to] {
			for _, letter := range letters {
				all = append(all, word+string(letter))
			}
		}
		from = to
	}
	return all
}

// A pattern of a tenant keeps no processor: with backtracking this takes longer than anybody waits.
func TestManyStars(t *testing.T) {
	t.Parallel()
	if pattern.Fits(strings.Repeat("a*", 100)+"b", strings.Repeat("a", 10_000)) {
		t.Error("a text without a b fits a pattern that ends in b")
	}
}
