package agents

import (
	"strings"
	"testing"

	"turnstile/test/expect"
)

func TestFor(t *testing.T) {
	t.Parallel()
	table, err := New(map[string][]string{
		"acme": {"acme:*"}, "dev": {"acme:dev:*", "ops:1"}, "old": {"old:*"},
	})
	expect.OK(t, err)
	for key, want := range map[string]string{
		"acme:42": "acme", "acme:dev:1": "dev", "acme:dev": "acme", "ops:1": "dev", "ops:12": Default, "old:1": "old",
	} {
		expect.Equal(t, key, table.For(key), want)
		if !table.Covers(want, key) {
			t.Errorf("%s does not cover %s", want, key)
		}
	}
	for agent, key := range map[string]string{"dev": "acme:42", "gone": "acme:42"} {
		if table.Covers(agent, key) {
			t.Errorf("%s covers %s", agent, key)
		}
	}
	if !table.Covers("acme", "acme:dev:1") {
		t.Error("an agent covers what a longer pattern of another has, too")
	}

	var none *Table
	expect.Equal(t, "without a table", none.For("acme:42"), Default)
	expect.Equal(t, "covered by default", none.Covers(Default, "acme:42"), true)
	expect.Equal(t, "covered by another", none.Covers("acme", "acme:42"), false)
}

func TestMistakes(t *testing.T) {
	t.Parallel()
	_, err := New(map[string][]string{"a": {"x:*", "y z", "*:x", ""}, "b": {"x:*"}, "c c": {"z"}, "d": nil, Default: {"*"}})
	want := []string{
		`agent "a": sessions: "y z" is neither a session's key nor a beginning such as "acme:*"`,
		`agent "a": sessions: "*:x" is neither a session's key nor a beginning such as "acme:*"`,
		`agent "a": sessions: "" is neither a session's key nor a beginning such as "acme:*"`,
		`agent "b": sessions: "x:*" belongs to agent "a": give it to one of them`,
		`agent "c c": a name has 1 to 64 letters, digits and ._:@+=~-, the first a letter or digit`,
		`agent "d": sessions is missing: list patterns such as "acme:*"`,
		`agent "default": this name is taken by the agent of all other sessions: choose another one, with sessions ["*"] if it is for all`,
	}
	if err == nil {
		t.Fatal("no error")
	}
	expect.List(t, "mistakes", strings.Split(err.Error(), "\n"), want...)
}

// A whole key decides before the beginnings that fit it, whatever their lengths.
func TestAWholeKeyDecides(t *testing.T) {
	t.Parallel()
	table, err := New(map[string][]string{"exact": {"ops:1", "ab"}, "begin": {"ops:*", "a*", "ab*"}})
	expect.OK(t, err)
	for key, want := range map[string]string{"ops:1": "exact", "ops:2": "begin", "ab": "exact", "abc": "begin"} {
		expect.Equal(t, key, table.For(key), want)
	}
}
