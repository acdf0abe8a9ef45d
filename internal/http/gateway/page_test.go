package gateway_test

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"testing"

	"turnstile/test/expect"
)

// docs/http.md shows the responses that a bot reads, with the fields that they have.
func TestPageShowsTheResponses(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/http.md")
	expect.OK(t, err)
	r := newRig(t)
	send := func(body object, edits ...edit) answer {
		return r.call("POST", "/v1/sessions/demo/messages", body, append(edits, header("Idempotency-Key", body["text"].(string)))...)
	}
	got := map[string]answer{
		"is stored":                            send(object{"text": "hello"}),
		"was stored before, and waits or runs": send(object{"text": "hello"}),
		"was a command":                        send(object{"text": "/status", "commands": true}),
		"is refused":                           send(object{"text": "x", "txt": "hello"}),
	}
	r.worker()
	got["has ended"] = send(object{"text": "hello"}, header("Prefer", "wait=60"))
	got["has failed"] = send(object{"text": "fail=final"}, header("Prefer", "wait=60"))
	rows := regexp.MustCompile("(?m)^\\| ([^|]+) \\| [^|]+ \\| `(\\{.*\\})` \\|$").FindAllStringSubmatch(string(page), -1)
	expect.Equal(t, "rows of the table", len(rows), len(got))
	for _, row := range rows {
		expect.List(t, row[1], fieldsOf(t, []byte(got[row[1]].text)), fieldsOf(t, []byte(row[2]))...)
	}
}

// fieldsOf returns the names of an object's fields, without those of a failure that depend on the token.
func fieldsOf(t *testing.T, text []byte) (names []string) {
	t.Helper()
	var all map[string]json.RawMessage
	expect.OK(t, json.Unmarshal(text, &all))
	for name := range all {
		if name != "detail" || all["status"] != nil && all["turn"] == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
