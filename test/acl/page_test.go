package acl_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"turnstile/test/expect"
)

// docs/security.md has the lifetime of every key of a session in docs/internals/keys.md.
func TestPageSaysHowLongEachKeyIsKept(t *testing.T) {
	t.Parallel()
	keys, err := os.ReadFile("../../docs/internals/keys.md")
	expect.OK(t, err)
	page, err := os.ReadFile("../../docs/security.md")
	expect.OK(t, err)
	_, kept, _ := strings.Cut(string(page), "\n## Where texts are kept\n")
	kept, _, ok := strings.Cut(kept, "\n## ")
	if !ok {
		t.Fatal("the page has no such section")
	}
	rows := regexp.MustCompile("(?m)^\\| `turnstile:\\{S\\}:([a-zA-Z:]+)` \\|").FindAllStringSubmatch(string(keys), -1)
	if len(rows) < 10 {
		t.Fatalf("docs/internals/keys.md has %d keys of a session", len(rows))
	}
	for _, row := range rows {
		if !regexp.MustCompile("`(turnstile:\\{S\\}:)?" + row[1] + "`").MatchString(kept) {
			t.Errorf("how long %s is kept is not said", row[1])
		}
	}
}
