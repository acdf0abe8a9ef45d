package board_test

import (
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"slices"
	"strings"
	"testing"

	"turnstile/internal/http/board"
	"turnstile/internal/http/gateway"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// attempt is a request to a page or an action of the board.
type attempt struct {
	path   string               // "": the pattern's
	open   bool                 // it needs no token
	nobody bool                 // it names no session
	rights []gateway.Permission // besides read; one is enough
}

// attempts are the requests to the board. Add new ones here.
var attempts = map[string]attempt{
	"GET /board/static/{file}":  {path: "/board/static/board.css", open: true},
	"GET /board/login":          {open: true},
	"POST /board/login":         {open: true},
	"POST /board/logout":        {open: true},
	"GET /board/{$}":            {path: "/board/", nobody: true},
	"GET /board/open":           {path: "/board/open?session=new", nobody: true},
	"GET /board/s/{s}":          {},
	"GET /board/s/{s}/forget":   {rights: []gateway.Permission{gateway.Operate}},
	"POST /board/s/{s}/forget":  {rights: []gateway.Permission{gateway.Operate}},
	"POST /board/s/{s}/send":    {rights: []gateway.Permission{gateway.Send}},
	"POST /board/s/{s}/stop":    {rights: []gateway.Permission{gateway.Control}},
	"POST /board/s/{s}/approve": {rights: []gateway.Permission{gateway.Control, gateway.Send}},
	"POST /board/s/{s}/always":  {rights: []gateway.Permission{gateway.Control, gateway.Send}},
	"POST /board/s/{s}/deny":    {rights: []gateway.Permission{gateway.Control, gateway.Send}},
	"POST /board/s/{s}/retry":   {rights: []gateway.Permission{gateway.Control}},
	"POST /board/s/{s}/undo":    {rights: []gateway.Permission{gateway.Control}},
	"POST /board/s/{s}/rerun":   {rights: []gateway.Permission{gateway.Control}},
}

// as is the rig with another visitor's browser, which follows no redirect.
func (r *rig) as(name string) *rig {
	r.Helper()
	other := *r
	jar, err := cookiejar.New(nil)
	expect.OK(r, err)
	other.http = &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	if name != "" {
		expect.Equal(r, "login of "+name, other.login(name).StatusCode, http.StatusSeeOther)
	}
	return &other
}

// Every page and action of the board serves only tokens that may read and have its right, and shows no
// text to others. Sessions that the token does not see are hidden and not changed.
func TestRoutesAndRights(t *testing.T) {
	t.Parallel()
	const seeded, theirs = "seeded words", "theirs:1"
	tokens := map[string][]string{"": nil, "read": {"read"}}
	for _, p := range []string{"send", "control", "operate"} {
		tokens[p], tokens["read-"+p] = []string{p}, []string{"read", p}
	}
	var entries []token
	for name, may := range tokens {
		if name != "" {
			entries = append(entries, token{Name: name, Sessions: []string{"mine:*", "new"}, May: may})
		}
	}
	r := newRig(t, entries...)
	r.worker()
	r.say(theirs, seeded)
	foreign := func() (dump string) {
		keys := r.redis.Keys(t.Context(), "*{session:"+theirs+"}*").Val()
		slices.Sort(keys)
		for _, key := range keys {
			dump += key + " " + actors.Content(t.Context(), r.redis, key, r.redis.Type(t.Context(), key).Val()) + "\n"
		}
		return dump
	}
	before := foreign()
	patterns := board.New(r.gateway, board.Deps{}).Patterns()
	for name, may := range tokens {
		visitor := r.as(name)
		for i, pattern := range patterns {
			a, ok := attempts[pattern]
			if !ok {
				t.Errorf("%s: add it to attempts", pattern)
			}
			if a.open || !ok {
				continue
			}
			send := func(key string) page {
				method, path, _ := strings.Cut(pattern, " ")
				if a.path != "" {
					path = a.path
				}
				form := url.Values{"session": {key}, "text": {"x"}, "question": {"none.1"}}
				if method == http.MethodGet {
					form = nil
				}
				return visitor.request(method, strings.ReplaceAll(path, "{s}", key), form)
			}
			mine := fmt.Sprintf("mine:%s-%d", name, i)
			r.say(mine, seeded)
			about := fmt.Sprintf("%s with %q", pattern, may)
			got := send(mine)
			allowed := slices.Contains(may, "read") && (len(a.rights) == 0 || slices.ContainsFunc(a.rights, func(p gateway.Permission) bool { return slices.Contains(may, string(p)) }))
			switch {
			case allowed:
				if got.StatusCode == http.StatusUnauthorized || got.StatusCode == http.StatusForbidden || got.StatusCode == http.StatusNotFound && a.path == "" {
					t.Errorf("%s: %s\n%s", about, got.Status, got.text)
				}
			case name != "":
				expect.Equal(t, about, got.StatusCode, http.StatusForbidden)
			case strings.HasPrefix(pattern, http.MethodGet):
				expect.Equal(t, about+" leads to the login", strings.HasPrefix(got.Header.Get("Location"), "/board/login?"), true)
			default:
				expect.Equal(t, about, got.StatusCode, http.StatusUnauthorized)
			}
			if !slices.Contains(may, "read") {
				r.lacks(got, seeded)
			}
			if a.nobody {
				r.lacks(got, theirs)
				continue
			}
			if got := send(theirs); name != "" {
				expect.Equal(t, about+" about another's session", got.StatusCode, http.StatusNotFound)
				r.lacks(got, seeded)
			}
		}
	}
	for pattern := range attempts {
		expect.Equal(t, pattern+" is of the board", slices.Contains(patterns, pattern), true)
	}
	actors.Same(t, "the other's session", before, foreign())
}
