package board_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"

	"turnstile/test/expect"
)

// Failed logins are bounded. Successful ones do not count, and visitors stay logged in.
func TestFailedLoginsAreBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t, boss)
	for range 30 {
		r.has(r.login("boss"), 200)
	}
	n := 0
	p := r.login("wrong")
	for ; p.StatusCode == http.StatusUnauthorized && n < 50; p = r.login("wrong") {
		n++
	}
	if n < 10 || n > 15 { // more than ten if they took longer than 6 s
		t.Errorf("%d logins failed", n)
	}
	r.has(p, 429, "Too many logins have failed")
	if s, err := strconv.Atoi(p.Header.Get("Retry-After")); err != nil || s < 1 || s > 6 {
		t.Errorf("Retry-After %q", p.Header.Get("Retry-After"))
	}
	r.has(r.login("boss"), 429) // otherwise there would be no bound
	r.has(r.get("/board/"), 200, "Log out")
}

// A cookie has the current permissions of its token. It ends with the secret that made it.
func TestCookieAfterTheTokensFileChanged(t *testing.T) {
	t.Parallel()
	r := newRig(t, boss, reader)
	write := func(tokens ...token) {
		t.Helper()
		data, err := os.ReadFile(tokensFile(t, tokens...))
		expect.OK(t, err)
		expect.OK(t, os.WriteFile(r.tokens, data, 0o600))
		expect.OK(t, r.gateway.Reload())
	}
	r.login("boss")
	r.has(r.get("/board/s/web:1/forget"), 200)
	lesser := boss
	lesser.May = []string{"read"}
	write(lesser, reader)
	r.has(r.get("/board/"), 200, "Log out")
	r.has(r.get("/board/s/web:1/forget"), 403)
	write(reader)
	r.has(r.get("/board/"), 200, "Log in")
	r.has(r.post("/board/s/web:1/send", url.Values{"text": {"x"}}), 401)
	// The same name with another secret.
	other := boss
	other.Name = "other"
	var entries []map[string]any
	data, err := os.ReadFile(tokensFile(t, other))
	expect.OK(t, err)
	expect.OK(t, json.Unmarshal(data, &entries))
	entries[0]["name"] = "boss"
	data, err = json.Marshal(entries)
	expect.OK(t, err)
	expect.OK(t, os.WriteFile(r.tokens, data, 0o600))
	expect.OK(t, r.gateway.Reload())
	r.has(r.get("/board/"), 200, "Log in")
	r.has(r.login("other"), 200, "Log out")
}

// Keys are validated before they are part of a page or of Redis' keys.
func TestOddKeysInPaths(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for path, status := range map[string]int{
		"/board/s/a%2Fb": 400, "/board/s/100%25": 400, "/board/s/%7Ba%7D": 400, "/board/s/a%0Ab": 400, "/board/s/%C3%A4": 400, "/board/s/": 404,
		"/board/s/" + strings.Repeat("a", 300): 400, "/board/s/a/b": 404, "/board/s/%2e%2e": 400, "/board/s/a@b+c=d~e": 404,
	} {
		p := r.get(path)
		if p.StatusCode != status || !strings.Contains(p.text, "<title>") {
			t.Errorf("%s: %d, want %d\n%s", path, p.StatusCode, status, p.text)
		}
	}
	r.has(r.post("/board/s/a%2Fb/send", url.Values{"text": {"x"}}), 400)
}
