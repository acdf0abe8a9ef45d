package board

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"turnstile/internal/http/gateway"
	"turnstile/pkg/admin"
	"turnstile/pkg/session"
)

// listPage is a page of sessions.
type listPage struct {
	frame
	States   []stateTab
	State    string
	Prefix   string // what is searched
	Titles   bool   // in titles only
	Older    string // the link to older sessions with it in their titles
	Rows     []row
	Overview *overview // nil: the visitor may not see it
	Next     string    // the link to the next page, "" if there is none
	First    string    // the link to the first page, "" on it
	Problem  *gateway.Problem
	MayStart bool
}

// stateTab is a link that shows the sessions in one state.
type stateTab struct {
	Name, Link string
	Current    bool
}

// row is a session in the list.
type row struct {
	admin.SessionInfo
	Link string
}

// listed are the states to choose from, in the order of their links. "" is all.
var listed = []string{
	"", string(admin.StateAttention), string(admin.StateRunning), string(admin.StateAsking), string(admin.StateWaiting), string(admin.StateDelayed),
	string(admin.StatePaused), string(admin.StateSuspended), string(admin.StateIdle),
}

const (
	// listRows is the least number of sessions of a page that is not the last.
	listRows = 50

	// listCalls is how many calls a page makes to find the first session that the visitor may see.
	listCalls = 5
)

func (b *Board) getList(w http.ResponseWriter, v *visit) {
	asked := v.URL.Query()
	p := listPage{
		frame: b.frame(v.token, "Sessions"), State: asked.Get("state"), Prefix: asked.Get("prefix"),
		MayStart: v.token.May(gateway.Send),
	}
	for _, state := range listed {
		name := state
		if name == "" {
			name = "all"
		}
		p.States = append(p.States, stateTab{name, listLink(state, p.Prefix, ""), state == p.State})
	}
	status := http.StatusOK
	p.Titles = asked.Get("in") == titles
	next, err := b.search(v, &p, admin.Query{State: admin.State(p.State), Cursor: asked.Get("cursor"), Limit: listRows})
	if err != nil {
		p.Problem = b.problem(v.Request, err)
		status = p.Problem.Status
	} else {
		p.Overview = b.overview(v)
	}
	if next != "" {
		p.Next = listLink(p.State, p.Prefix, next)
		if p.Titles {
			p.Next += "&in=" + titles
		}
	}
	if asked.Get("cursor") != "" {
		p.First = listLink(p.State, p.Prefix, "")
	}
	b.render(w, v.Request, status, "list", p)
}

// titles is the value of a link to further sessions with a text in their titles.
const titles = "titles"

// search reads a page of rows. A search finds keys by their beginning, and the titles of the newest sessions. A link
// leads to those of older ones.
func (b *Board) search(v *visit, p *listPage, q admin.Query) (next string, err error) {
	if p.Prefix == "" {
		return b.readRows(v, p, q)
	}
	byTitle := q
	byTitle.Title = p.Prefix
	if p.Titles {
		return b.readRows(v, p, byTitle)
	}
	if q.Cursor == "" {
		page, err := v.token.Sessions(v.work, b.deps.Admin, byTitle)
		if err != nil {
			return "", err
		}
		for _, s := range page.Sessions {
			p.Rows = append(p.Rows, row{s, sessionLink(s.Session)})
		}
		if page.Next != "" {
			p.Older = listLink(p.State, p.Prefix, page.Next) + "&in=" + titles
		}
	}
	if q.Prefix = p.Prefix; session.ValidateKey(q.Prefix) != nil {
		return "", nil //nolint:nilerr // no key begins with it, a title may have it
	}
	titled := len(p.Rows)
	next, err = b.readRows(v, p, q)
	p.Rows = slices.DeleteFunc(p.Rows, func(r row) bool { // one that both have found
		titled--
		return titled >= 0 && strings.HasPrefix(r.Session, p.Prefix)
	})
	return next, err
}

// readRows reads the sessions that the visitor may see, and returns the cursor of the next page, which names no other
// one. A page may be short or empty, because one call looks at a bounded number of sessions.
func (b *Board) readRows(v *visit, p *listPage, q admin.Query) (next string, err error) {
	before := len(p.Rows)
	for range listCalls {
		page, err := v.token.Sessions(v.work, b.deps.Admin, q)
		if err != nil {
			return "", err
		}
		for _, s := range page.Sessions {
			p.Rows = append(p.Rows, row{s, sessionLink(s.Session)})
		}
		if next = page.Next; next == "" || len(p.Rows) > before {
			break
		}
		q.Cursor = next
	}
	return next, nil
}

// listLink links to a page of the list.
func listLink(state, prefix, cursor string) string {
	q := url.Values{}
	for name, value := range map[string]string{"state": state, "prefix": prefix, "cursor": cursor} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if len(q) == 0 {
		return "/board/"
	}
	return "/board/?" + q.Encode()
}

// sessionLink links to a session's page.
func sessionLink(key string) string { return "/board/s/" + url.PathEscape(key) }

// getOpen leads to the session that a form names.
func (b *Board) getOpen(w http.ResponseWriter, v *visit) {
	key := v.URL.Query().Get("session")
	if err := session.ValidateKey(key); err != nil {
		b.fail(w, v.Request, v.token, err)
		return
	}
	http.Redirect(w, v.Request, sessionLink(key), http.StatusSeeOther)
}
