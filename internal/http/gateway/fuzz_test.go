package gateway

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"strconv"
	"strings"
	"testing"
	"time"

	"turnstile/internal/text/strictjson"
	"turnstile/pkg/session"
	"turnstile/test/expect"
)

// secretSum is the SHA-256 of "secret".
const secretSum = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"

// A file of tokens is refused with one line for each problem. Otherwise each of its tokens is found
// by its secret only, sees the sessions of its patterns, and makes sessions that it sees.
func FuzzTokens(f *testing.F) {
	for _, text := range []string{
		`[{"name":"web","sha256":"SUM","sessions":["web:*"],"new":"web:","may":["send","read"]}]`,
		`[{"name":"a\nb","sha256":"x","sessions":["*"],"may":["send"]}]`, `[{"name":"a","sha256":"SUM","sessions":["a"],"new":"b","may":["own"]}]`,
		`[]`, `null`, `[{}]`, `[{"Name":"a"}]`, `[{"name":"a","sha256":"SUM","sessions":["` + strings.Repeat("\u202e", 500) + `"],"may":["read"]}]`,
		`[{"name":"a","sha256":"SUM","sessions":["*"],"may":["` + strings.Repeat("long", 500) + `"]},{"name":"` + strings.Repeat("long", 500) + `"}]`,
	} {
		f.Add(text, "web:1")
	}
	f.Fuzz(func(t *testing.T, text, key string) {
		list, err := parseTokens([]byte(strings.ReplaceAll(text, "SUM", secretSum)))
		if err != nil {
			for line := range strings.Lines(err.Error()) {
				expect.Line(t, "a problem", strings.TrimSuffix(line, "\n"), expect.ErrorMost)
			}
			return
		}
		tokens := &Tokens{}
		tokens.list.Store(&list)
		if _, ok := tokens.find(key); ok && key != "secret" {
			t.Errorf("%q is a secret", key)
		}
		for _, token := range list {
			if named, ok := tokens.named(token.Name); !ok || named.sum != token.sum || len(token.may) == 0 {
				t.Errorf("%+v is not found by its name", token)
			}
			if token.prefix != "" && !token.Sees(token.prefix+"0") {
				t.Errorf("%+v makes sessions that it does not see", token)
			}
			if token.Sees(key) && !fits(token.sessions, key) {
				t.Errorf("%+v sees %q", token, key)
			}
			for i, p := range token.prefixes("") {
				if session.ValidateKey("x"+p) != nil || i > 0 && strings.HasPrefix(p, token.prefixes("")[i-1]) {
					t.Errorf("%+v has the prefixes %q", token, token.prefixes(""))
				}
			}
		}
	})
}

// fits is another reading of patterns: path.Match has the same star, because keys have no slash.
func fits(patterns []string, key string) bool {
	for _, p := range patterns {
		if ok, err := path.Match(p, strings.ReplaceAll(key, "/", "_")); ok || err != nil {
			return true
		}
	}
	return false
}

// Only a cookie that this gateway made and that has not expired represents its token.
func FuzzCookie(f *testing.F) {
	list, err := parseTokens([]byte(`[{"name":"web","sha256":"` + secretSum + `","sessions":["*"],"may":["read"]}]`))
	expect.OK(f, err)
	tokens := &Tokens{}
	tokens.list.Store(&list)
	g := &Gateway{config: Config{Tokens: tokens}}
	good, ok := g.Login(httptest.NewRequest(http.MethodPost, "/", nil), "secret")
	if !ok {
		f.Fatal("no cookie")
	}
	over := "1795227266." + list[0].mac(cookieName, "1795227266") + ".web"
	f.Add(good.Value, false)
	f.Add(over, false)
	f.Add("", true)
	f.Add("+9223372036854775807"+good.Value[strings.IndexByte(good.Value, '.'):], true)
	f.Fuzz(func(t *testing.T, value string, whole bool) {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		if whole {
			r.Header.Set("Cookie", value)
		} else {
			r.AddCookie(&http.Cookie{Name: cookieName, Value: value})
		}
		before := time.Now().Unix()
		token, ok := g.ofCookie(r)
		c, err := r.Cookie(cookieName)
		if !ok {
			return
		}
		if err != nil || token.Name != "web" {
			t.Fatalf("%q stands for %+v", value, token)
		}
		// Not compared with good: the fuzzer's processes make theirs at different times.
		ends, _, _ := strings.Cut(c.Value, ".")
		if c.Value != ends+"."+list[0].mac(cookieName, ends)+".web" {
			t.Errorf("another cookie than a gateway's stands for its token: %q", c.Value)
		}
		if at, err := strconv.ParseInt(ends, 10, 64); err != nil || at <= before {
			t.Errorf("a cookie whose time is over stands for its token: %q", c.Value)
		}
	})
}

// A body of /v1 is a problem of one object, or becomes a message with its sender and nobody else's.
func FuzzMessageBody(f *testing.F) {
	for _, text := range []string{
		`{"text":"hi","mode":"steer","meta":{"a":"b"},"as":"u","delay":"1h","reply_to":"chat","context":{"id":1},"commands":false,"v":1}`,
		`{"text":"hi","meta":{"sender":"root"}}`, `{"text":"hi","as":"../root"}`, `{"text":"hi","name":"Alice\nBob"}`, `{"Text":"hi","x":{"y":1}}`, `null`, `{"v":2}`, `{"text":"/stop","commands":true}`,
		`{"delay":"` + strings.Repeat("long", 1000) + `"}`, `{"as":"` + strings.Repeat("long", 1000) + `"}`, `{"v":` + strings.Repeat("1", 1000) + `}`,
	} {
		f.Add([]byte(text))
	}
	token := Token{Name: "web", may: []Permission{Send}}
	f.Fuzz(func(t *testing.T, data []byte) {
		var body messageBody
		err := strictjson.DecodeNamed(data, &body)
		if err != nil {
			expect.Line(t, "the problem", err.Error(), expect.ErrorMost)
			return
		}
		m, err := body.message(token)
		if err != nil {
			expect.Line(t, "the problem", err.Error(), expect.ErrorMost)
			return
		}
		if of := m.Meta[senderMeta]; of != "web" && (!strings.HasPrefix(of, "web/") || session.ValidateID(of[len("web/"):]) != nil) {
			t.Errorf("%q is of %q", data, of)
		}
		if name := m.Meta[nameMeta]; name != body.Name || strings.ContainsAny(name, "\n\r\u2028\u202e") {
			t.Errorf("%q has the name %q", data, name)
		}
		if body.Commands {
			t.Errorf("%q is a command of a token that may not control", data)
		}
	})
}

// Values that a request asks for in its headers and its query are within bounds, or a problem.
func FuzzRequest(f *testing.F) {
	f.Add("wait=30", "30s", "key", "5", "1.x")
	f.Add(`respond-async, Wait = "60"; x`, "1d", `"a\"b"`, "0", "0.")
	f.Add("wait=-1", "-1s", "", "99999999999999999999", "-1.x")
	f.Add("wait=65535, wait=1", "9223372036854775807ns", "\xff", "+1", "99.")
	f.Fuzz(func(t *testing.T, prefer, wait, key, limit, cursor string) {
		h := http.Header{}
		h.Set("Prefer", prefer)
		h.Set("Idempotency-Key", key)
		q := url.Values{"wait": {wait}, "limit": {limit}}
		r := &Request{Request: &http.Request{Header: h, URL: &url.URL{RawQuery: q.Encode()}}}
		if d := preferredWait(h); d < 0 || d > waitMost {
			t.Errorf("Prefer: %q waits for %s", prefer, d)
		}
		if d, err := r.Wait(); err == nil && (d < 0 || d > waitMost) {
			t.Errorf("wait=%q waits for %s", wait, d)
		}
		id, err := idempotencyKey(r)
		if err == nil && id != "" && session.ValidateID(id) != nil {
			t.Errorf("the Idempotency-Key %q is the id %q", key, id)
		}
		if n, err := r.Number("limit", 1, 100, 50); err == nil && (n < 1 || n > 100) {
			t.Errorf("limit=%q is %d", limit, n)
		}
		if nth, _, err := splitCursor(cursor, 3); err == nil && (nth < 0 || nth >= 3) {
			t.Errorf("cursor %q begins at prefix %d", cursor, nth)
		}
	})
}

// A ticket is read from Redis as it was written.
func FuzzGrant(f *testing.F) {
	f.Add("web", "web:1")
	f.Add("a\"b", "\xff")
	f.Fuzz(func(t *testing.T, token, key string) {
		of := grant{token, key, Token{Name: token}.ticketMAC(key)}
		data, err := json.Marshal(of)
		expect.OK(t, err)
		var again grant
		expect.OK(t, json.Unmarshal(data, &again))
		if session.ValidateKey(key) == nil && session.ValidateID(token) == nil && again != of {
			t.Errorf("%q, %q become %+v", token, key, again)
		}
	})
}
