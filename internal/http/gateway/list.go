package gateway

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"turnstile/pkg/admin"
	"turnstile/pkg/session"
)

// sessionsPage is a page of the list of sessions.
type sessionsPage struct {
	Sessions []Listed `json:"sessions"`
	Next     string   `json:"next"` // the cursor of the next page; empty: there is none
}

// listed are the states that a list may ask for, besides "" for all.
var listed = []string{"attention", "starting", "running", "asking", "paused", "waiting", "delayed", "suspended", "idle"}

// getSessions lists sessions. A token that does not see all of them gets its sessions by key, prefix
// by prefix.
func (g *Gateway) getSessions(w http.ResponseWriter, r *Request) error {
	if err := r.CheckQuery("state", "prefix", "limit", "cursor"); err != nil {
		return err
	}
	limit, err := r.Number("limit", 1, pageMost, pageDefault)
	if err != nil {
		return err
	}
	query := r.URL.Query()
	if state := query.Get("state"); state != "" && !slices.Contains(listed, state) {
		last := len(listed) - 1
		return fmt.Errorf("%w state %.100q: it is one of %s and %s", session.ErrInvalid, state, strings.Join(listed[:last], ", "), listed[last])
	}
	list, err := r.Token.Sessions(r.Work(), g.deps.Admin, admin.Query{
		State: admin.State(query.Get("state")), Prefix: query.Get("prefix"), Cursor: query.Get("cursor"), Limit: limit,
	})
	if err != nil {
		return err
	}
	page := sessionsPage{Sessions: []Listed{}, Next: list.Next}
	for _, s := range list.Sessions {
		page.Sessions = append(page.Sessions, ListedOf(s))
	}
	return Respond(w, http.StatusOK, page)
}

// Sessions returns a page of the sessions that the token sees. Neither the page nor its Next names
// any other session. q.Limit is needed.
func (t Token) Sessions(ctx context.Context, client *admin.Client, q admin.Query) (page admin.Page, err error) {
	prefixes, nth, limit := []string{q.Prefix}, 0, q.Limit
	if !t.SeesAll() {
		q.Only, prefixes = t.Sees, t.prefixes(q.Prefix)
		if nth, q.Cursor, err = splitCursor(q.Cursor, len(prefixes)); err != nil {
			return page, err
		}
	}
	for ; nth < len(prefixes) && len(page.Sessions) < limit; nth++ {
		q.Prefix, q.Limit = prefixes[nth], limit-len(page.Sessions)
		list, err := client.Page(ctx, q)
		if err != nil {
			return page, err
		}
		page.Sessions = append(page.Sessions, list.Sessions...)
		if list.Next != "" {
			page.Next = joinCursor(q, nth, list.Next)
			break
		}
		if q.Cursor = ""; nth+1 < len(prefixes) && len(page.Sessions) == limit {
			page.Next = joinCursor(q, nth+1, "")
		}
	}
	return page, nil
}

// joinCursor returns the cursor of a list after a place in one of its prefixes.
func joinCursor(q admin.Query, nth int, place string) string {
	if q.Only == nil {
		return place
	}
	return strconv.Itoa(nth) + "." + place
}

func splitCursor(cursor string, prefixes int) (nth int, place string, err error) {
	if cursor == "" {
		return 0, "", nil
	}
	number, place, ok := strings.Cut(cursor, ".")
	nth, err = strconv.Atoi(number)
	if !ok || err != nil || nth < 0 || nth >= prefixes {
		return 0, "", Fail(InvalidRequest, "cursor is not the next of a page of the same list.")
	}
	return nth, place, nil
}

// SeesAll reports whether every session exists for the token.
func (t Token) SeesAll() bool { return slices.Contains(t.sessions, "*") }

// prefixes are the prefixes, within prefix, of the keys that the token sees. None is a prefix of
// another.
func (t Token) prefixes(prefix string) []string {
	var all []string
	for _, pattern := range t.sessions {
		literal, _, _ := strings.Cut(pattern, "*")
		switch {
		case strings.HasPrefix(literal, prefix):
			all = append(all, literal)
		case strings.HasPrefix(prefix, literal):
			all = append(all, prefix)
		}
	}
	slices.Sort(all)
	var apart []string
	for _, p := range all {
		if len(apart) == 0 || !strings.HasPrefix(p, apart[len(apart)-1]) {
			apart = append(apart, p)
		}
	}
	return apart
}
