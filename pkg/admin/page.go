package admin

import (
	"cmp"
	"context"
	"fmt"
)

const (
	// pageLooks is how many sessions one call of Page reads.
	pageLooks = 1000

	// pageChunk is how many of them it reads at least in a round trip, within pageLooks.
	pageChunk = 100
)

// Page is a page of sessions. The last one has no Next. A page may have fewer sessions than the
// limit, or none, and a Next.
type Page struct {
	Sessions []SessionInfo
	Next     string
}

// Page reads one page of a list for people. It reads at most 1,000 sessions, or with Only continues
// until it has found one. A session that is used between two pages may be on both.
func (a *Client) Page(ctx context.Context, q Query) (Page, error) {
	w, err := q.walk()
	if err != nil {
		return Page{}, err
	}
	q.Limit = cmp.Or(q.Limit, 100)
	page, err := a.page(ctx, q, w)
	if err != nil {
		return Page{}, fmt.Errorf("list sessions: %w", err)
	}
	return page, nil
}

func (a *Client) page(ctx context.Context, q Query, w *walk) (page Page, err error) {
	for looked := 0; looked < pageLooks || q.Only != nil && page.Next == ""; {
		n := q.Limit - len(page.Sessions)
		if looked > 0 { // most do not match
			n = max(n, pageChunk)
		}
		if n = min(n, pageLooks-looked); n <= 0 { // there are many that Only leaves out
			n = pageLooks
		}
		places, err := w.next(ctx, a.rdb, n)
		if err != nil {
			return page, err
		}
		all, err := a.listed(ctx, q, w, places, &page)
		if err != nil {
			return page, err
		}
		if all && len(places) < n {
			if w = w.then; w == nil {
				page.Next = ""
				return page, nil
			}
		}
		if len(page.Sessions) == q.Limit {
			return page, nil
		}
		looked += len(places)
	}
	return page, nil
}

// listed adds the matching sessions of these places to the page, as far as they fit, and sets Next
// after the last place that it has handled. all reports that these are all places.
func (a *Client) listed(ctx context.Context, q Query, w *walk, places []place, page *Page) (all bool, err error) {
	var keys []string
	at := map[string]place{}
	last := place{} // the last one that Next may name
	for _, p := range places {
		at[p.key] = p
		if q.Only == nil || q.Only(p.key) {
			last = p
			keys = append(keys, p.key)
		}
	}
	if keys, err = w.fresh(ctx, a.rdb, keys); err != nil {
		return false, err
	}
	found, err := a.read(ctx, q, keys)
	if err != nil {
		return false, err
	}
	for _, s := range found {
		if len(page.Sessions) == q.Limit {
			return false, nil
		}
		page.Sessions = append(page.Sessions, s)
		page.Next = w.cursor(at[s.Session])
	}
	if last.key != "" {
		page.Next = w.cursor(last)
	}
	return true, nil
}
