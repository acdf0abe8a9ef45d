package gateway

import (
	"bufio"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"turnstile/internal/redis/redisconn"
	"turnstile/pkg/session"
)

// Route is one method of one path. A {s} in its path is a session's key, which Handle checks.
type Route struct {
	// Pattern is METHOD /path, as http.ServeMux has it.
	Pattern string

	// May is the permission that the request's token needs. Empty: none.
	May Permission

	// Open says that the route needs no token.
	Open bool

	// Ticket says that a ticket in the query, or the cookie of the board, may replace the token.
	Ticket bool

	// Within is how long Serve may work in Redis. Defaults to 5 s.
	Within time.Duration

	// Reads says that the route may read much of a session, so that only a few requests do it at a time.
	Reads bool

	// History says that a body also has earlier messages, and may be larger than one message.
	History bool

	// Fail sends a problem. Defaults to the JSON of RFC 9457.
	Fail func(http.ResponseWriter, *Request, *Problem)

	// Serve responds. An error becomes a problem, so it must come before anything is written.
	Serve func(http.ResponseWriter, *Request) error
}

// Handle adds a route. It panics if the pattern is taken.
func (g *Gateway) Handle(route Route) {
	if route.Within == 0 {
		route.Within = workTimeout
	}
	g.mu.Lock()
	g.routes = append(g.routes, route)
	g.mu.Unlock()
	g.mux.HandleFunc(route.Pattern, func(w http.ResponseWriter, r *http.Request) {
		started := time.Now()
		request := &Request{
			Request: r, ID: w.Header().Get(requestIDHeader), Session: r.PathValue("s"), gateway: g, route: route, started: started,
		}
		t := &tracked{ResponseWriter: w, request: request}
		defer request.end()
		defer g.recovering(t, request)
		err := g.admit(route, request)
		if err == nil && route.Reads {
			_, err = request.Reads(request.Work())
		}
		if err == nil {
			err = route.Serve(t, request)
		}
		if err != nil {
			g.failed(t, request, err)
		} else {
			g.audited(request)
		}
		g.answered(request, t.status)
	})
}

// Patterns are the patterns of all routes.
func (g *Gateway) Patterns() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	var all []string
	for _, r := range g.routes {
		all = append(all, r.Pattern)
	}
	return all
}

// admit checks whether the request may use the route.
func (g *Gateway) admit(route Route, r *Request) error {
	if route.Open {
		return nil
	}
	var err error
	if r.Token, err = g.authenticate(route, r); err != nil {
		return err
	}
	if err := g.limitRate(r.Token); err != nil {
		return err
	}
	if strings.Contains(route.Pattern, "{s}") {
		if err := session.ValidateKey(r.Session); err != nil {
			return err
		}
		if !r.Token.Sees(r.Session) {
			return unknownSession(r.Session)
		}
	}
	if route.May != "" && !r.Token.May(route.May) {
		return Fail(Forbidden, "The token %s may not %s.", r.Token.Name, route.May)
	}
	return nil
}

// limitRate counts a request, and fails if it is one too many.
func (g *Gateway) limitRate(t Token) error {
	wait, ok := g.limits.request(t.Name)
	if ok {
		return nil
	}
	p := Fail(RateLimited, "The token %s may send %g requests per second.", t.Name, g.config.Rate)
	p.retryAfter = wait
	return p
}

func unknownSession(key string) *Problem {
	return Fail(UnknownSession, "The session %s is unknown.", key)
}

// failed responds with a problem, unless the route has responded already.
func (g *Gateway) failed(w *tracked, r *Request, err error) {
	p := problemOf(err)
	if p.Status >= http.StatusInternalServerError && p.Code != Draining {
		level := slog.LevelWarn
		if p.Code == InternalError {
			level = slog.LevelError
		}
		report := func() {
			g.log.Log(r.Context(), level, "request failed", "route", r.Pattern, "session", r.Session, "request_id", r.ID, "code", string(p.Code), "error", redisconn.Explain(err))
		}
		if p.Code == Overloaded {
			g.seldom.Do(report)
		} else {
			report()
		}
	}
	if p.Code == Unauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="Turnstile"`)
	}
	if w.status == 0 {
		r.fail(w, p)
	}
}

// fail sends a problem in the route's format.
func (r *Request) fail(w http.ResponseWriter, p *Problem) {
	if p.RequestID = r.ID; r.route.Fail != nil {
		p.header(w.Header())
		r.route.Fail(w, r, p)
		return
	}
	p.write(w, r.ID)
}

// answered reports a request, once. A stream calls it at its beginning. The query is not logged: it
// may have a ticket.
func (g *Gateway) answered(r *Request, status int) {
	if r.reported {
		return
	}
	r.reported = true
	took := time.Since(r.started)
	if r.traced != nil {
		r.traced(status)
	}
	if g.deps.Observer != nil {
		g.deps.Observer.Answered(r.route.Pattern, status, took)
	}
	if !g.log.Enabled(r.Context(), slog.LevelDebug) {
		return
	}
	g.log.Debug("request", "route", r.route.Pattern, "session", r.Session, "token", r.Token.Name, "status", status,
		"took", took, "request_id", r.ID, "traceparent", r.TraceParent())
}

// audited logs who changed something, for a collector of logs: one line for each request. A session's own
// audit has no address, and ends with it.
func (g *Gateway) audited(r *Request) {
	if r.did == "" && r.Method != http.MethodGet && (r.route.May == Control || r.route.May == Operate) {
		r.did = r.route.Pattern
	}
	if r.did != "" {
		g.Audit(r.Request, r.Token, r.did, r.Session, r.by)
	}
}

// Audit logs that a token's user has changed something; as "" it is the token itself.
func (g *Gateway) Audit(r *http.Request, t Token, did, sessionKey, as string) {
	g.log.Info("audit", "did", did, "session", sessionKey, "token", t.Name, "by", t.Sender(as), "address", r.RemoteAddr)
}

// recovering responds with a problem when a route panics.
func (g *Gateway) recovering(w *tracked, r *Request) {
	cause := recover()
	if cause == nil {
		return
	}
	if err, ok := cause.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(cause)
	}
	g.panicked(r.Pattern, r.ID, cause)
	if r.traced != nil {
		r.traced(http.StatusInternalServerError)
		r.traced = nil
	}
	if w.status != 0 {
		panic(http.ErrAbortHandler) // a response that has begun must not look whole
	}
	r.fail(w, problemOf(nil))
}

// panicked logs a panic that was recovered.
func (g *Gateway) panicked(route, requestID string, cause any) {
	g.log.Error("a route panicked", "route", route, "request_id", requestID, "panic", fmt.Sprint(cause), "stack", string(debug.Stack()))
}

// methods are the methods that routes may have.
var methods = []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}

// noRoute responds to a path or a method that no route has.
func (g *Gateway) noRoute(w http.ResponseWriter, r *http.Request) {
	var allowed []string
	for _, method := range methods {
		other := r.Clone(r.Context())
		other.Method = method
		if _, pattern := g.mux.Handler(other); pattern != "/" && pattern != "" {
			allowed = append(allowed, method)
		}
	}
	p := Fail(NotFound, "There is no %s.", r.URL.Path)
	if len(allowed) > 0 && !slices.Contains(allowed, r.Method) {
		p = Fail(MethodNotAllowed, "%s has %s.", r.URL.Path, strings.Join(allowed, ", "))
		w.Header().Set("Allow", strings.Join(allowed, ", "))
	}
	request := &Request{Request: r, ID: w.Header().Get(requestIDHeader), gateway: g}
	if strings.HasPrefix(r.URL.Path, "/v1/") && !g.ownPath(r.URL.Path) {
		request.route.Fail = g.foreign
	}
	request.fail(w, p)
}

// FailForeign has fail send the problems of paths below /v1 that belong to no route of this
// package.
func (g *Gateway) FailForeign(fail func(http.ResponseWriter, *Request, *Problem)) { g.foreign = fail }

// ownPath reports whether a path begins like a route of this package.
func (g *Gateway) ownPath(path string) bool {
	part := func(path string) string { return strings.SplitN(path+"//", "/", 4)[2] }
	for _, r := range g.own() {
		if _, own, _ := strings.Cut(r.Pattern, " "); strings.HasPrefix(own, "/v1/") && part(own) == part(path) {
			return true
		}
	}
	return false
}

// tracked remembers the status of a response.
type tracked struct {
	http.ResponseWriter
	request *Request
	status  int
}

func (t *tracked) WriteHeader(status int) {
	if t.status == 0 {
		t.status = status
	}
	t.ResponseWriter.WriteHeader(status)
}

func (t *tracked) Write(data []byte) (int, error) {
	if t.status == 0 {
		t.status = http.StatusOK
	}
	return t.ResponseWriter.Write(data)
}

// Hijack implements http.Hijacker. A caller that takes over the connection has responded.
func (t *tracked) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(t.ResponseWriter).Hijack()
	if err == nil {
		t.status = http.StatusOK
	}
	return conn, buffered, err
}

// Unwrap is for http.ResponseController.
func (t *tracked) Unwrap() http.ResponseWriter { return t.ResponseWriter }
