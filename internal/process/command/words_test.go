package command

import "testing"

func TestPrompt(t *testing.T) {
	t.Parallel()
	const wrote = "[The user wrote:]\n"
	allowed := Users{Commands: []string{"review", "compact"}}
	for text, want := range map[string]string{
		"":                                   "",
		"hello":                              "hello",
		"/config permissionMode=acceptEdits": wrote + "/config permissionMode=acceptEdits",
		"/etc/hosts is wrong":                wrote + "/etc/hosts is wrong",
		"/":                                  wrote + "/",
		"/ review":                           wrote + "/ review",
		"//review":                           wrote + "//review",
		" \t\n/foo":                          wrote + " \t\n/foo",
		"\u00a0/foo":                         wrote + "\u00a0/foo",
		"\ufeff/foo":                         wrote + "\ufeff/foo",
		"\u200b\u2060/foo":                   wrote + "\u200b\u2060/foo",
		"hello\n/foo":                        "hello\n/foo",
		"[@web/alice wrote:]\n/foo":          "[@web/alice wrote:]\n/foo",
		"!touch x":                           "!touch x",
		"#remember":                          "#remember",

		"/review":                "/review",
		" /review the\nlast one": "/review the\nlast one",
		"/compact\u00a0now":      "/compact\u00a0now",
		"/reviews":               wrote + "/reviews",
		"/Review":                wrote + "/Review",
		"/review @/etc/x":        `/review \@/etc/x`,
	} {
		if got := allowed.Prompt(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if got := (Users{}).Prompt("/review"); got != wrote+"/review" {
		t.Errorf("without commands: %q", got)
	}
}

func TestQuote(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][2]string{
		"see @/etc/x":               {`see \@/etc/x`, `see \@/etc/x`},
		"@\"a b.txt\"":              {`\@"a b.txt"`, `\@"a b.txt"`},
		"see\n@x and\t@y":           {"see\n\\@x and\t\\@y", "see\n\\@x and\t\\@y"},
		"\u00a0@x\ufeff@y\u3000@z":  {"\u00a0\\@x\ufeff\\@y\u3000\\@z", "\u00a0\\@x\ufeff\\@y\u3000\\@z"},
		"。@x、@y？@z！@w":              {`。\@x、\@y？\@z！\@w`, `。\@x、\@y？\@z！\@w`},
		"(@x) `@y`":                 {"(\\@x) `\\@y`", "(\\@x) `\\@y`"},
		"bob.b@example.com":         {"bob.b@example.com", `bob.b\@example.com`},
		`\@x`:                       {`\@x`, `\\@x`},
		"@@x":                       {`\@@x`, `\@\@x`},
		"[@web/alice wrote:]\n@x/y": {"[@web/alice wrote:]\n\\@x/y", "[\\@web/alice wrote:]\n\\@x/y"},
		"no sign":                   {"no sign", "no sign"},
	} {
		for i, mentions := range []bool{false, true} {
			if got := (Users{Mentions: mentions}).Quote(text); got != want[i] {
				t.Errorf("%q, %v: %q, want %q", text, mentions, got, want[i])
			}
		}
	}
}
