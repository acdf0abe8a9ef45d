package outbox

import (
	"net/http"
	"path"
	"strings"
	"testing"
	"time"

	"turnstile/internal/protocol/deliveries"
	"turnstile/internal/protocol/wire"
	"turnstile/internal/redis/script"
	"turnstile/test/expect"
)

const goodSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// A file of destinations is refused with one line for each problem, which has no secret. Otherwise each
// of its destinations can be named, is reached by HTTP, signs, and receives the sessions of its patterns.
func FuzzDestinations(f *testing.F) {
	for _, text := range []string{
		`[{"name":"chat","url":"https://h/p","secrets":["` + goodSecret + `"],"sessions":["web:*"],"max_age":"1h","private":true}]`,
		`[{"name":"a","url":"http://u:p@h#x","secrets":["whsec_hunter2"],"sessions":["[","/"],"max_age":"1s"},{"name":"a"}]`,
		`[{"name":"A\n","url":"ftp://h","secrets":[]}]`, `[{"Name":"a","URL":"https:///x"}]`, `null`, `[null]`, `{}`,
		`[{"name":"` + strings.Repeat("long", 500) + `","sessions":["` + strings.Repeat("[", 500) + `"],"max_age":"` + strings.Repeat("x", 500) + `"}]`,
	} {
		f.Add([]byte(text), "web:1")
	}
	f.Fuzz(func(t *testing.T, text []byte, key string) {
		text = []byte(strings.ReplaceAll(string(text), "whsec_X", goodSecret)) // a short name, for the fuzzer
		all, err := ParseDestinations(text)
		if err != nil {
			for line := range strings.Lines(err.Error()) {
				expect.Line(t, "a problem", strings.TrimSuffix(line, "\n"), expect.ErrorMost)
				if strings.Contains(line, goodSecret[len(secretPrefix):]) && !strings.Contains(line, "name") {
					t.Errorf("a problem has a secret: %q", line)
				}
			}
			return
		}
		for _, name := range all.Names() {
			d := all.Named(name)
			if wire.ValidateDestination(name) != nil || d == nil || len(d.signers) == 0 || len(d.signers) > maxSecrets || d.MaxAge < time.Minute {
				t.Errorf("%q: %+v", name, d)
			}
			p := newPoster(1, nil)
			r, err := p.request(t.Context(), d, deliveries.Delivery{ID: "1", Body: []byte("{}"), Sequence: 1, Attempt: 1})
			if err != nil || r.URL.Host == "" || r.URL.Scheme != "https" && !d.Private {
				t.Errorf("%q: %v, %v", name, r, err)
			}
		}
		if to := all.Routes().For(key); to != "" {
			fits := false
			for _, pattern := range all.Named(to).Sessions {
				ok, err := path.Match(pattern, key)
				fits = fits || ok && err == nil
			}
			if !fits {
				t.Errorf("%q receives %q", to, key)
			}
		}
	})
}

// A receiver's wish for a pause is never negative, and no number of seconds is read as less than a
// lower one.
func FuzzRetryAfter(f *testing.F) {
	f.Add("120", "", "121")
	f.Add("Fri, 31 Dec 1999 23:59:59 GMT", "Fri, 31 Dec 1999 23:59:50 GMT", "-1")
	f.Add("Fri, 31 Dec 9999 23:59:59 GMT", "", "99999999999999999999")
	f.Add("2147483647", "", "2147483648")
	f.Fuzz(func(t *testing.T, value, date, other string) {
		now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		of := func(value string) time.Duration {
			h := http.Header{}
			h.Set("Retry-After", value)
			h.Set("Date", date)
			return retryAfter(h, now)
		}
		d := of(value)
		if d < 0 {
			t.Errorf("Retry-After %q, Date %q: %s", value, date, d)
		}
		digits := func(text string) bool { return text != "" && len(text) < 18 && strings.Trim(text, "0123456789") == "" }
		if digits(value) && digits(other) {
			a, b := script.Number(value), script.Number(other)
			if (a < b) != (d < of(other)) && min(d, of(other)) < longestRetryAfter {
				t.Errorf("%q is %s, %q is %s", value, d, other, of(other))
			}
		}
	})
}
