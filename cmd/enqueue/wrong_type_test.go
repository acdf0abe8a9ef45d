package main

import (
	"errors"
	"strings"
	"testing"

	"turnstile/pkg/session"
)

func TestWhatIsWrongWithALine(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		`{"text":"x","meta":{"b":1,"c":"ok","a":[]}}`:     `invalid JSON: "meta.a" must be a string`,
		`{"text":"x","meta":{"k":1},"session":2}`:         `invalid JSON: "meta.k" must be a string`,
		`{"text":"x","meta":{"\n":true}}`:                 `invalid JSON: "meta.\n" must be a string`,
		`{"meta":{"` + strings.Repeat("k", 200) + `":1}}`: `invalid JSON: "meta.KEY" must be a string`,
		`{"text":"x","meta":"k=v"}`:                       `invalid JSON: "meta" must be an object`,
		`[]`:                                              `invalid JSON: the line must be a JSON object`,
		`"hello"`:                                         `invalid JSON: the line must be a JSON object`,
		"null\n":                                          `invalid JSON: the line must be a JSON object`,
		`7`:                                               `invalid JSON: the line must be a JSON object`,
		`{"text":"x","sesion":"s"}`:                       `invalid JSON: unknown field "sesion": did you mean "session"?`,
		`{"text":"x","expiresin":"1h"}`:                   `invalid JSON: unknown field "expiresin": did you mean "expires_in"?`,
		`{"text":"x","priority":1}`:                       `invalid JSON: unknown field "priority"`,
		`{"text":"x","attachments":[{"nam":"a"}]}`:        `invalid JSON: unknown field "nam": did you mean "name"?`,
		`{"text":"x","attachments":["a.png"]}`:            `invalid JSON: "attachments" must be a list of objects`,
		`{"text":7}`:                                      `invalid JSON: "text" must be a string`,
		`{"text":"x","attachments":{}}`:                   `invalid JSON: "attachments" must be a list`,
		`{"text":"x","expires_in":3600}`:                  `invalid JSON: "expires_in" must be a string, such as "10s"`,
	} {
		_, err := options{session: "s"}.item([]byte(line))
		if err == nil || err.Error() != want || !errors.Is(err, session.ErrInvalid) {
			t.Errorf("%s: %v, want %s", line, err, want)
		}
	}
}
