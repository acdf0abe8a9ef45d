package gateway

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	// cookieName is the name of the board's cookie.
	cookieName = "turnstile_board"

	// cookieLife is how long a login lasts.
	cookieLife = 12 * time.Hour
)

// Login returns a cookie that represents the token with this secret, for twelve hours. The cookie
// has the token's name, its expiry and their MAC. The MAC's key is the token's entry in the file,
// so a cookie ends when its token changes or is removed.
func (g *Gateway) Login(r *http.Request, secret string) (*http.Cookie, bool) {
	if g.config.Tokens == nil {
		return nil, false
	}
	token, ok := g.config.Tokens.find(strings.TrimSpace(secret))
	if !ok {
		return nil, false
	}
	until := strconv.FormatInt(time.Now().Add(cookieLife).Unix(), 10)
	c := g.Logout(r)
	c.MaxAge = int(cookieLife / time.Second)
	c.Value = until + "." + token.mac(cookieName, until) + "." + token.Name
	return c, true
}

// Logout returns the cookie that deletes the board's cookie.
func (g *Gateway) Logout(r *http.Request) *http.Cookie {
	return &http.Cookie{
		Name: cookieName, Path: "/", MaxAge: -1, HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https",
	}
}

// mac authenticates values that represent the token, such as a cookie.
func (t Token) mac(what, until string) string {
	h := hmac.New(sha256.New, t.sum[:])
	fmt.Fprintf(h, "%s %s %s", what, until, t.Name)
	return hex.EncodeToString(h.Sum(nil))
}

// Visitor returns the current token of a request's cookie. Without tokens every request may do
// everything. The error is a problem: Unauthorized without a valid cookie, RateLimited after too
// many requests of the token.
func (g *Gateway) Visitor(r *http.Request) (Token, error) {
	if g.config.Tokens == nil {
		return g.anyone()
	}
	token, ok := g.ofCookie(r)
	if !ok {
		return Token{}, Fail(Unauthorized, "Log in.")
	}
	return token, g.limitRate(token)
}

// ofCookie returns the token of a request's cookie.
func (g *Gateway) ofCookie(r *http.Request) (Token, bool) {
	if g.config.Tokens == nil {
		return everybody, true
	}
	cookie, err := r.Cookie(cookieName)
	if err != nil {
		return Token{}, false
	}
	until, rest, _ := strings.Cut(cookie.Value, ".")
	mac, name, _ := strings.Cut(rest, ".")
	token, ok := g.config.Tokens.named(name)
	if !ok || !hmac.Equal([]byte(mac), []byte(token.mac(cookieName, until))) {
		return Token{}, false
	}
	end, err := strconv.ParseInt(until, 10, 64)
	return token, err == nil && time.Now().Unix() < end
}

// Locked reports whether requests need a token.
func (g *Gateway) Locked() bool { return g.config.Tokens != nil }

// Mount serves pages next to the API, for example "/board/". The gateway checks the Host header and
// the origin of their requests. The handler checks permissions.
func (g *Gateway) Mount(tree string, h http.Handler) { g.mux.Handle(tree, h) }
