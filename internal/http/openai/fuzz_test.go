package openai

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"turnstile/internal/protocol/stream"
	"turnstile/pkg/session"
	"turnstile/test/expect"
)

// A response has one ID, and no other text is parsed as one.
func FuzzResponseID(f *testing.F) {
	f.Add(place{"web:1", "m1"}.id(), "web:1", "m1")
	f.Add(place{"web:1", "m1"}.id()+"\n", "a\nb", "")
	f.Add("resp_", "", "x")
	f.Add("resp_YQpi=", "a", "b")
	f.Fuzz(func(t *testing.T, id, sessionKey, message string) {
		if p, ok := parseResponseID(id); ok && p.id() != id {
			t.Errorf("%q and %q name %+v", id, p.id(), p)
		}
		p := place{sessionKey, message}
		again, ok := parseResponseID(p.id())
		if valid := session.ValidateKey(sessionKey) == nil && session.ValidateID(message) == nil; ok != valid || ok && again != p {
			t.Errorf("%+v becomes %+v, %v", p, again, ok)
		}
	})
}

// A later event never has a lower number, and every number is exact in JavaScript.
func FuzzSequence(f *testing.F) {
	f.Add("1795227266293-0.0", "1795227266293-0.1", int64(1795227266000))
	f.Add("0-0.0", "18446744073709551615-18446744073709551615.9", int64(0))
	f.Add("1795227266293-5000.0", "1795227266294-0.0", int64(-1))
	f.Fuzz(func(t *testing.T, one, other string, accepted int64) {
		a, errA := stream.ParseEventID(one)
		b, errB := stream.ParseEventID(other)
		at := time.UnixMilli(accepted)
		// Redis' clock is far from the end of an int64.
		if errA != nil || errB != nil || len(one) > 18 || len(other) > 18 || accepted < 0 || accepted > 1<<50 || !strings.Contains(one, ".") || !strings.Contains(other, ".") {
			return
		}
		n, m := numberOf(one, at), numberOf(other, at)
		if a.After(b) && n < m || b.After(a) && m < n {
			t.Errorf("%s is %d, %s is %d", one, n, other, m)
		}
		if n < 0 || n > lastNumber || n <= queuedNumber {
			t.Errorf("%s is %d", one, n)
		}
	})
}

// A body of either API is refused with one line, or becomes a message of the token.
func FuzzBody(f *testing.F) {
	for _, text := range []string{
		`{"model":"m","input":"hi","conversation":{"id":"web:1"},"metadata":{"a":"b"}}`,
		`{"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"a"},{"type":"input_image","image_url":"https://h/a.png?x"},{"type":"input_file","file_url":"http://h/"}]}]}`,
		`{"messages":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:,"}}]}]}`,
		`{"input":[{"role":"user","content":[{"type":"input_image","image_url":"hTtps://h/a"},{"type":"input_image","image_url":"Data:image/png;base64,AAAA"}]}]}`,
		`{"messages":[{"role":"assistant","content":null},{"role":"user","content":"new"}],"metadata":{"sender":"root"}}`,
		`{"input":[{"role":"` + strings.Repeat("long", 1000) + `"}],"messages":[{"role":"` + strings.Repeat("long", 1000) + `"}]}`,
		`{"input":{},"conversation":7}`, `{"input":[{"role":"user","content":[{"type":"` + strings.Repeat("\u202e", 500) + `"}]}]}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		refused := func(err error) bool {
			if err != nil {
				expect.Line(t, "the problem", err.Error(), expect.ErrorMost)
			}
			return err != nil
		}
		message := func(text string, files []session.Attachment, metadata map[string]string) {
			m, err := origin{Model: "m", Previous: "p"}.message(text, files, metadata, "web")
			expect.OK(t, err)
			if m.Meta[senderMeta] != "web" {
				t.Errorf("%q is of %q", data, m.Meta[senderMeta])
			}
			if o, rest := originOf(session.Message{Meta: m.Meta}); o.Model != "m" || len(rest) != len(metadata) {
				t.Errorf("%q has the origin %+v and the metadata %q", data, o, rest)
			}
			for _, file := range files {
				scheme, _, _ := strings.Cut(file.URL, ":")
				if !slices.Contains([]string{"http", "https", "data"}, strings.ToLower(scheme)) || file.Name == "" {
					t.Errorf("%q has the file %+v", data, file)
				}
			}
		}
		var r responseBody
		instructed := func(all []statement, err error) {
			q, wrong := parseAsked(data)
			if refused(err) || refused(wrong) {
				return
			}
			if q, text, files, err := folded("input", all, true, q); !refused(err) {
				message(text, files, nil)
				request(*q).echo(&response{})
			}
		}
		if err := json.Unmarshal(data, &r); err == nil {
			instructed(r.statements(true))
			if all, err := r.statements(false); !refused(r.check(false)) && !refused(err) {
				text, files := joined(all)
				message(text, files, r.Metadata)
			}
		}
		var c chatBody
		if err := json.Unmarshal(data, &c); err == nil {
			instructed(c.statements(true))
			if all, err := c.statements(false); !refused(c.check(false)) && !refused(err) {
				text, files := labelled(newStatements(all))
				message(text, files, c.Metadata)
			}
		}
	})
}
