package gateway

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"turnstile/docs"
	"turnstile/internal/http/crowd"
)

const (
	requestIDHeader = "X-Request-Id"
	traceHeader     = "Traceparent"
)

// ServeHTTP makes the checks for every request, and calls its route.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := http.NewResponseController(w) // the server's deadlines are for short requests
	_ = c.SetWriteDeadline(time.Time{})
	h := w.Header()
	if r.ContentLength == 0 {
		_ = c.SetReadDeadline(time.Time{})
	} else { // until the body is read; the server does not wait for a body that no route reads
		_ = c.SetReadDeadline(time.Now().Add(readTimeout))
		h.Set("Connection", "close")
	}
	h.Set(requestIDHeader, requestID(r))
	if trace := traceParent(r.Header); trace != "" {
		h.Set(traceHeader, trace)
	}
	h.Set("X-Content-Type-Options", "nosniff")
	if g.share(w, r) {
		return
	}
	switch {
	case crowd.TooMany(r):
		h.Set("Connection", "close")
		g.seldom.Do(func() {
			g.log.Warn("too many connections: new ones get 503 overloaded; raise the limit of file descriptors (ulimit -n, LimitNOFILE=)")
		})
		Fail(Overloaded, "Too many connections are open. Nothing was changed.").write(w, h.Get(requestIDHeader))
	case !g.named(r.Host):
		Fail(WrongHost, "This gateway is not %.100q; see TURNSTILE_GATEWAY_HOSTS.", r.Host).write(w, h.Get(requestIDHeader))
	case g.origins.Check(r) != nil:
		Fail(CrossOrigin, "Pages of this origin may not change anything; see TURNSTILE_GATEWAY_ORIGINS.").write(w, h.Get(requestIDHeader))
	default:
		g.mux.ServeHTTP(w, r)
	}
}

// named reports whether a Host header names this gateway. Without tokens the host must name this
// machine, because any web page could reach the gateway under a name of the page's domain (DNS
// rebinding).
func (g *Gateway) named(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.ToLower(strings.Trim(host, "[]"))
	if len(g.config.Hosts) > 0 {
		return slices.Contains(g.config.Hosts, host)
	}
	if g.config.Tokens != nil || host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// share lets pages of the listed origins read the response, and answers their preflights. It
// reports whether the request was one.
func (g *Gateway) share(w http.ResponseWriter, r *http.Request) bool {
	if len(g.config.Origins) == 0 {
		return false
	}
	h := w.Header()
	h.Add("Vary", "Origin")
	origin := r.Header.Get("Origin")
	if !slices.Contains(g.config.Origins, origin) {
		return false
	}
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", "X-Request-Id, Location, Retry-After, Preference-Applied, X-Turnstile-Left-Out")
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	h.Set("Access-Control-Allow-Methods", "GET, POST, DELETE")
	h.Set("Access-Control-Allow-Headers", r.Header.Get("Access-Control-Request-Headers")) // SDKs add many headers
	h.Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
	return true
}

// serveDocument serves the contract.
func serveDocument(w http.ResponseWriter, _ *Request) error {
	w.Header().Set("Content-Type", "application/yaml")
	allowWrite(w)
	_, _ = w.Write(docs.OpenAPI) // it fails only if the client went away
	return nil
}
