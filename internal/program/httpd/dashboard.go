package httpd

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"strconv"
	"strings"
	"unicode/utf8"

	"turnstile/internal/text/printable"
)

// maxShown is how many bytes of a payload or result asynqmon shows. A page can have a hundred of
// them.
const maxShown = 16 << 10

// guarded serves a page to requests with the token. If no token is set, it serves requests that name
// this machine as their host.
func (s *Server) guarded(next http.Handler) http.Handler {
	next = http.NewCrossOriginProtection().Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Frame-Options", "DENY")
		h.Set("Content-Security-Policy", "frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		switch {
		case s.config.Token == "" && !namesThisMachine(r.Host):
			http.Error(w, "No token is set, so this page is only for requests to localhost; set TURNSTILE_HTTP_TOKEN to reach it by another name.", http.StatusForbidden)
		case s.config.Token != "" && !s.authorized(r):
			if r.Header.Get("Authorization") != "" && s.warnings.Allow() { // a browser's first request has no token
				s.config.Logger.Warn("a request had a wrong token", "path", r.URL.Path, "address", r.RemoteAddr)
			}
			h.Add("WWW-Authenticate", `Basic realm="Turnstile", charset="UTF-8"`)
			h.Add("WWW-Authenticate", `Bearer realm="Turnstile"`)
			http.Error(w, "Give TURNSTILE_HTTP_TOKEN as the password of any user, or as a bearer token.", http.StatusUnauthorized)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// closed refuses all requests to a page that agents' programs must not read, unless a token is set.
func (s *Server) closed(page http.Handler) http.Handler {
	if s.config.Token != "" || !s.config.Programs {
		return page
	}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "This page is closed: the agent's programs reach this address too, and no token is set. Set TURNSTILE_HTTP_TOKEN for the worker, and give it here as the password of any user.", http.StatusForbidden)
	})
}

func (s *Server) authorized(r *http.Request) bool {
	given, ok := bearer(r.Header.Get("Authorization"))
	if !ok {
		if _, given, ok = r.BasicAuth(); !ok {
			return false
		}
	}
	// The hashes have the same length, so the comparison's time does not reveal the token's
	// length.
	got, want := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(s.config.Token))
	return subtle.ConstantTimeCompare(got[:], want[:]) == 1
}

func bearer(header string) (token string, ok bool) {
	scheme, token, ok := strings.Cut(header, " ")
	return strings.TrimSpace(token), ok && strings.EqualFold(scheme, "Bearer")
}

// namesThisMachine reports whether a Host header is localhost or a loopback address. Any port is
// accepted, because the port may be forwarded.
func namesThisMachine(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && ip.Unmap().IsLoopback()
}

// recovering responds with an error when a page's handler panics; asynqmon's may.
func (s *Server) recovering(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			cause := recover()
			switch cause {
			case nil:
			case http.ErrAbortHandler:
				panic(cause)
			default:
				s.config.Logger.Error("a page panicked", "path", r.URL.Path, "panic", fmt.Sprint(cause), "stack", string(debug.Stack()))
				http.Error(w, "This page failed; the worker's log has the reason.", http.StatusInternalServerError)
			}
		}()
		next.ServeHTTP(w, r)
	})
}

// show formats a payload or a result for asynqmon, because asynqmon's formatter hides every text with a
// line break. The page parses JSON again and shows escaped characters unescaped. The browser keeps them
// in one line, and never reads them as markup.
func show(_ string, data []byte) string {
	if !utf8.Valid(data) {
		return "not text, " + strconv.Itoa(len(data)) + " bytes"
	}
	if len(data) <= maxShown {
		return printable.Text(string(data))
	}
	cut := maxShown
	for !utf8.RuneStart(data[cut]) {
		cut--
	}
	return printable.Text(string(data[:cut])) + " … " + strconv.Itoa(len(data)-cut) + " more bytes"
}
