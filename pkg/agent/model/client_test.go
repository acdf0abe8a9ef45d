package model

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"turnstile/test/modelserver"
)

func TestEndpoint(t *testing.T) {
	t.Parallel()
	for base, want := range map[string]string{
		"https://h":                       "https://h/chat/completions",
		"https://h/":                      "https://h/chat/completions",
		"https://h/v1":                    "https://h/v1/chat/completions",
		"https://h/v1/":                   "https://h/v1/chat/completions",
		"https://h/v1?":                   "https://h/v1/chat/completions",
		"https://h/a%2Fb/v1":              "https://h/a%2Fb/v1/chat/completions",
		"https://h/https://api.test:1/v1": "https://h/https://api.test:1/v1/chat/completions",
		"https://u:p@h/v1":                "https://u:p@h/v1/chat/completions",
	} {
		u, err := url.Parse(base)
		if err != nil {
			t.Fatal(err)
		}
		if got := endpoint(*u); got != want {
			t.Errorf("%s: %s", base, got)
		}
	}
}

// redirecting starts a server that redirects all requests.
func redirecting(t *testing.T, to func(*http.Request) string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, to(r), http.StatusTemporaryRedirect)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// A redirect at the same server is followed, with the request's body and key.
func TestRedirectAtTheSameServer(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{Key: key}, text("hi"))
	at, err := url.Parse(r.model.URL())
	if err != nil {
		t.Fatal(err)
	}
	inner := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if strings.HasPrefix(q.URL.Path, "/old/") {
			http.Redirect(w, q, "/v1/"+strings.TrimPrefix(q.URL.Path, "/old/"), http.StatusPermanentRedirect)
			return
		}
		q.URL.Scheme, q.URL.Host, q.RequestURI = at.Scheme, at.Host, ""
		resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(q)
		if err != nil {
			t.Error(err)
			return
		}
		defer resp.Body.Close()
		w.Header().Set("Content-Type", resp.Header.Get("Content-Type"))
		_, _ = io.Copy(w, resp.Body)
	}))
	t.Cleanup(inner.Close)
	via := newRig(t, Config{Key: key, URL: inner.URL + "/old"})
	via.must(turn("hello"))
	via.told("text: hi")
	r.wasAsked(1, "user: hello")
	if got := r.model.Requests()[0].Header.Get("Authorization"); got != "Bearer "+key {
		t.Errorf("Authorization %q", got)
	}
}

// Neither the messages nor the key go to a server that is not configured.
func TestRedirectToAnotherServer(t *testing.T) {
	t.Parallel()
	other := modelserver.New(t)
	at := redirecting(t, func(r *http.Request) string { return strings.TrimSuffix(other.URL(), "/v1") + r.URL.Path })
	r := newRig(t, Config{URL: at + "/v1", Key: key, MaxRetries: -1})
	r.says(r.run(turn("hello")), true, "does not respond: it redirects to another server", at)
	if n := len(other.Requests()); n > 0 {
		t.Errorf("%d requests at the other server", n)
	}
}

func TestRedirectsWithoutEnd(t *testing.T) {
	t.Parallel()
	at := redirecting(t, func(r *http.Request) string { return r.URL.Path + "x" })
	r := newRig(t, Config{URL: at, MaxRetries: -1})
	r.says(r.run(turn("hello")), true, "it redirects again and again")
}

func TestSameServer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"https://h/a", "https://H:443/b", true}, {"http://h", "http://h:80", true}, {"http://u:p@h", "http://h", true},
		{"https://h", "http://h", false}, {"https://h", "https://h:444", false}, {"https://h", "https://h.test", false}, {"http://h:443", "https://h:443", false},
	} {
		a, errA := url.Parse(c.a)
		b, errB := url.Parse(c.b)
		if errA != nil || errB != nil || sameServer(a, b) != c.same || sameServer(b, a) != c.same {
			t.Errorf("%+v", c)
		}
	}
}

// A server that responds with 101 and holds the connection fails the turn: nothing would end the reading.
func TestSwitchedProtocols(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		t.Cleanup(func() { conn.Close() })
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
	}))
	t.Cleanup(s.Close)
	r := newRig(t, Config{URL: s.URL, Key: key})
	r.says(r.run(turn("hello")), false, "does not stream Chat Completions")
}

// Only the beginning of an endless error is read.
func TestErrorWithoutEnd(t *testing.T) {
	t.Parallel()
	const most = 64 << 20 // more than the connection's buffers hold
	gone := make(chan bool, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		piece := strings.Repeat("no ", 1000)
		for sent := 0; sent < most; sent += len(piece) {
			if _, err := io.WriteString(w, piece); err != nil {
				gone <- true
				return
			}
		}
		gone <- false
	}))
	t.Cleanup(s.Close)
	r := newRig(t, Config{URL: s.URL, Key: key})
	r.says(r.run(turn("hello")), false, "refused the request (HTTP 400: no no no")
	if !<-gone {
		t.Errorf("all of its %d bytes were read", most)
	}
}
