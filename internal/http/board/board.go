package board

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"turnstile"
	"turnstile/internal/http/gateway"
	"turnstile/pkg/admin"
)

// Deps are the parts that a board uses.
type Deps struct {
	Client *turnstile.Client
	Admin  *admin.Client

	// Asynqmon is the URL of asynqmon, to which pages link. Empty: no link.
	Asynqmon string

	// Logger defaults to slog.Default().
	Logger *slog.Logger
}

// Board is an http.Handler for everything below /board/. Make one with New.
type Board struct {
	gateway  *gateway.Gateway
	deps     Deps
	log      *slog.Logger
	mux      *http.ServeMux
	origins  *http.CrossOriginProtection
	attempts *gateway.Attempts
	patterns []string // of all pages and actions
}

// New returns the board of a gateway. It uses the gateway's tokens, and its pages read the
// gateway's event streams. Mount it there as "/board/".
func New(g *gateway.Gateway, d Deps) *Board {
	if d.Logger == nil {
		d.Logger = slog.Default()
	}
	b := &Board{gateway: g, deps: d, log: d.Logger, mux: http.NewServeMux(), origins: http.NewCrossOriginProtection(), attempts: gateway.NewLogins()}
	b.add("GET /board/static/{file}", serveStatic)
	b.add("GET /board/login", b.getLogin)
	b.add("POST /board/login", b.postLogin)
	b.add("POST /board/logout", b.postLogout)
	b.handle("GET /board/{$}", gateway.Read, b.getList)
	b.handle("GET /board/open", gateway.Read, b.getOpen)
	b.handle("GET /board/s/{s}", gateway.Read, b.getSession)
	b.handle("GET /board/s/{s}/forget", gateway.Operate, b.getForget)
	b.handle("POST /board/s/{s}/forget", gateway.Operate, b.postForget)
	for name, a := range actions {
		b.handle("POST /board/s/{s}/"+name, a.may, b.act(a))
	}
	return b
}

const (
	// workTimeout is how long a request may work in Redis.
	workTimeout = 10 * time.Second

	// eraseTimeout is the same for forget, which looks at every key.
	eraseTimeout = time.Minute

	// writeTimeout is how long a browser may take to read a page.
	writeTimeout = 30 * time.Second

	// loginMost is the largest form of a login. It is small, because no token accounts for it.
	loginMost = 4 << 10
)

// policy allows the board's own files and requests to its own server, nothing inline.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// ServeHTTP implements http.Handler.
func (b *Board) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	if b.origins.Check(r) != nil { // stricter than the gateway's: no other origin is trusted
		b.fail(w, r, gateway.Token{}, gateway.Fail(gateway.CrossOrigin, "Another site's page sent this request."))
		return
	}
	if _, pattern := b.mux.Handler(r); pattern == "" {
		b.fail(w, r, gateway.Token{}, gateway.Fail(gateway.NotFound, "There is no page %s.", r.URL.Path))
		return
	}
	b.mux.ServeHTTP(w, r)
}

// visit is a visitor's request that its token allows.
type visit struct {
	*http.Request
	work    context.Context // for Redis; it does not end when the browser goes away
	token   gateway.Token
	session string // the key in the path, "" if there is none
	formErr error
}

// add adds a pattern with a handler that checks the visitor itself.
func (b *Board) add(pattern string, serve http.HandlerFunc) {
	b.patterns = append(b.patterns, pattern)
	b.mux.HandleFunc(pattern, serve)
}

// handle adds a page or an action. may is the permission that a visitor's token needs, "" for a
// rule that the action checks itself.
func (b *Board) handle(pattern string, may gateway.Permission, serve func(http.ResponseWriter, *visit)) {
	within := workTimeout
	if strings.HasSuffix(pattern, "/forget") {
		within = eraseTimeout
	}
	b.add(pattern, func(w http.ResponseWriter, r *http.Request) {
		token, err := b.gateway.Visitor(r)
		if err != nil {
			b.turnAway(w, r, token, err)
			return
		}
		v := &visit{Request: r, token: token, session: r.PathValue("s")}
		if err := v.allowed(may); err != nil {
			b.fail(w, r, token, err)
			return
		}
		if r.Method == http.MethodPost {
			free, err := b.gateway.Form(w, r, token)
			defer free()
			v.formErr = formProblem(w, err)
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), within)
		defer cancel()
		v.work = ctx
		serve(w, v)
	})
}

// allowed fails unless the visitor may see the session, and do this.
func (v *visit) allowed(may gateway.Permission) error {
	if v.PathValue("s") != "" && !v.token.Sees(v.session) {
		return gateway.Fail(gateway.UnknownSession, "The session %s is unknown.", v.session)
	}
	for _, p := range []gateway.Permission{gateway.Read, may} {
		if p != "" && !v.token.May(p) {
			return gateway.Fail(gateway.Forbidden, "The token %s may not %s.", v.token.Name, p)
		}
	}
	return nil
}

// turnAway redirects a visitor without a cookie to the login.
func (b *Board) turnAway(w http.ResponseWriter, r *http.Request, token gateway.Token, err error) {
	p := gateway.ProblemOf(err)
	if p.Code == gateway.Unauthorized && r.Method == http.MethodGet {
		http.Redirect(w, r, "/board/login?to="+queryEscape(r.URL.RequestURI()), http.StatusSeeOther)
		return
	}
	b.fail(w, r, token, err)
}

// fail responds with a page about a failure.
func (b *Board) fail(w http.ResponseWriter, r *http.Request, token gateway.Token, err error) {
	p := b.problem(r, err)
	b.render(w, r, p.Status, "failure", struct {
		frame
		Problem *gateway.Problem
	}{b.frame(token, p.Title), p})
}

// problem returns the visitor's view of an error, and logs details for operators.
func (b *Board) problem(r *http.Request, err error) *gateway.Problem {
	p := gateway.ProblemOf(err)
	if p.Status >= http.StatusInternalServerError {
		b.log.WarnContext(r.Context(), "a page of the board failed", "path", r.URL.Path, "code", string(p.Code), "error", err)
	}
	return p
}

// frame has the data that every page needs.
type frame struct {
	PageTitle string
	Visitor   string // the name of the token, "" before the login
	Locked    bool   // there are tokens, so there is a logout
	Asynqmon  string // its URL, "" for no link
}

func (b *Board) frame(token gateway.Token, title string) frame {
	return frame{PageTitle: title, Visitor: token.Name, Locked: b.gateway.Locked(), Asynqmon: b.asynqmon(token)}
}

// asynqmon is the URL of asynqmon for a visitor. It shows every session, so others get no link.
func (b *Board) asynqmon(token gateway.Token) string {
	if !token.SeesAll() {
		return ""
	}
	return strings.TrimSuffix(b.deps.Asynqmon, "/")
}

// render sends a page. It is built completely first, so a failure sends no half page.
func (b *Board) render(w http.ResponseWriter, r *http.Request, status int, name string, data any) {
	if page, ok := b.made(w, r, name, data); ok {
		send(w, r, status, page)
	}
}

// made makes a page. If that fails, it responds.
func (b *Board) made(w http.ResponseWriter, r *http.Request, name string, data any) (page bytes.Buffer, ok bool) {
	if err := pages[name].ExecuteTemplate(&page, "page", data); err != nil {
		b.log.ErrorContext(r.Context(), "a page of the board cannot be made", "path", r.URL.Path, "error", err)
		http.Error(w, "The page cannot be made; the gateway's log has the reason.", http.StatusInternalServerError)
		return page, false
	}
	return page, true
}

func send(w http.ResponseWriter, r *http.Request, status int, page bytes.Buffer) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout))
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = page.WriteTo(w) // it fails only if the browser went away
	}
}

// formProblem is the problem of a form that could not be read, nil if it was.
func formProblem(w http.ResponseWriter, err error) error {
	var large *http.MaxBytesError
	var full *gateway.Problem
	switch {
	case errors.As(err, &full):
		return full
	case errors.As(err, &large):
		return gateway.Fail(gateway.BodyTooLarge, "The form has more than %d bytes.", large.Limit)
	case err != nil:
		return gateway.Fail(gateway.InvalidRequest, "The form cannot be read.")
	}
	w.Header().Del("Connection") // the body was read, so the connection can stay open
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	return nil
}
