package board

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"turnstile/internal/http/gateway"
)

// queryEscape is for values in queries.
var queryEscape = url.QueryEscape

// loginPage asks for a token.
type loginPage struct {
	frame
	To     string // the page to open then
	Failed bool
	Wait   int // seconds, after too many failures
}

// landing returns the page of the board that a login leads to. Another site's is not among them.
func landing(to string) string {
	if strings.HasPrefix(to, "/board/") && !strings.ContainsAny(to, "\\\r\n") && !strings.HasPrefix(to, "/board/login") {
		return to
	}
	return "/board/"
}

func (b *Board) getLogin(w http.ResponseWriter, r *http.Request) {
	to := landing(r.URL.Query().Get("to"))
	if _, err := b.gateway.Visitor(r); err == nil {
		http.Redirect(w, r, to, http.StatusSeeOther)
		return
	}
	b.render(w, r, http.StatusOK, "login", loginPage{frame: b.frame(gateway.Token{}, "Log in"), To: to})
}

// postLogin exchanges a token for a cookie.
func (b *Board) postLogin(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, loginMost)
	if err := formProblem(w, r.ParseForm()); err != nil {
		b.fail(w, r, gateway.Token{}, err)
		return
	}
	p := loginPage{frame: b.frame(gateway.Token{}, "Log in"), To: landing(r.PostForm.Get("to"))}
	if !b.gateway.Locked() {
		http.Redirect(w, r, p.To, http.StatusSeeOther)
		return
	}
	succeeded, wait := b.attempts.Begin(r)
	if wait > 0 {
		p.Wait = int((wait + time.Second - 1) / time.Second)
		w.Header().Set("Retry-After", strconv.Itoa(p.Wait))
		b.render(w, r, http.StatusTooManyRequests, "login", p)
		return
	}
	cookie, ok := b.gateway.Login(r, r.PostForm.Get("token"))
	if !ok {
		b.log.WarnContext(r.Context(), "a login to the board failed", "address", r.RemoteAddr)
		p.Failed = true
		b.render(w, r, http.StatusUnauthorized, "login", p)
		return
	}
	succeeded()
	http.SetCookie(w, cookie)
	http.Redirect(w, r, p.To, http.StatusSeeOther)
}

func (b *Board) postLogout(w http.ResponseWriter, r *http.Request) {
	http.SetCookie(w, b.gateway.Logout(r))
	http.Redirect(w, r, "/board/login", http.StatusSeeOther)
}
