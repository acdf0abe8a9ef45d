package admin

import (
	"context"
	"fmt"
	"strings"

	"turnstile/internal/protocol"
	"turnstile/pkg/session"
)

// StateAttention is a state of ListQuery only: the session has an open question or dead letters, or
// is paused or suspended.
const StateAttention State = "attention"

const (
	// listLooks is how many sessions one call of List looks at.
	listLooks = 1000

	// listChunk is how many of them it reads at least in a round trip, as far as it may.
	listChunk = 100

	// ListMost is the largest ListQuery.Limit.
	ListMost = 500
)

// ListQuery says which sessions List returns.
type ListQuery struct {
	State  State  // a State, or StateAttention; "" means all
	Prefix string // of the session's key; "" means all
	Limit  int    // from 1 to ListMost; 0 means 100
	Cursor string // Next of the page before; "" means the first page

	// Only, if set, says which sessions exist for the caller: a page and its Next name no other one.
	// The order is by key.
	Only func(sessionKey string) bool
}

// List is a page of sessions. An empty Next means that there are no more. A page may have fewer
// sessions than the limit, or none, and a Next all the same.
type List struct {
	Sessions []SessionState
	Next     string
}

// List returns a page of sessions. It looks at no more than 1,000, however many there are. With Only it
// looks on until it has found one.
//
// The order depends on the query. All sessions, and StateIdle: the newest activity first; with a
// prefix by key. StateWaiting: the longest wait first. StateDelayed: the next one that is due first.
// StateAttention, StateAsking, StatePaused and StateSuspended: the newest first. What is paused,
// suspended or archived by asynqmon or by a worker that died is listed within a
// TURNSTILE_SWEEP_INTERVAL, and so is a session in the order of keys after its Redis was empty.
//
// A session that is used while it is paged through may come twice. The error wraps
// session.ErrInvalid if the query is wrong.
func (a *Client) List(ctx context.Context, q ListQuery) (List, error) {
	if q.Limit == 0 {
		q.Limit = 100
	}
	if q.Limit < 1 || q.Limit > ListMost {
		return List{}, fmt.Errorf("%w limit %d: it is from 1 to %d", session.ErrInvalid, q.Limit, ListMost)
	}
	if q.Prefix != "" {
		if err := session.ValidateKey(q.Prefix); err != nil {
			return List{}, fmt.Errorf("prefix: %w", err)
		}
	}
	from, err := walkOf(q)
	if err != nil {
		return List{}, err
	}
	var page List
	for looked := 0; looked < listLooks || q.Only != nil && page.Next == ""; {
		n := q.Limit - len(page.Sessions)
		if looked > 0 { // most do not match
			n = max(n, listChunk)
		}
		if n = min(n, listLooks-looked); n <= 0 { // there are many that Only leaves out
			n = listLooks
		}
		places, err := from.next(ctx, a.rdb, n)
		if err != nil {
			return List{}, fmt.Errorf("list sessions: %w", err)
		}
		all, err := a.listed(ctx, q, from, places, &page)
		if err != nil {
			return List{}, fmt.Errorf("list sessions: %w", err)
		}
		if all && len(places) < n {
			page.Next = ""
			return page, nil
		}
		if len(page.Sessions) == q.Limit {
			return page, nil
		}
		looked += n
	}
	return page, nil
}

// listed adds those of the places that the query means to the page, as far as they fit, and sets its
// Next behind the last one that it has dealt with. all reports that these are all.
func (a *Client) listed(ctx context.Context, q ListQuery, w *walk, places []place, page *List) (all bool, err error) {
	var keys []string
	at := map[string]place{}
	last := place{} // the last one that Next may name
	for _, p := range places {
		at[p.key] = p
		if q.Only == nil || q.Only(p.key) {
			last = p
			if strings.HasPrefix(p.key, q.Prefix) {
				keys = append(keys, p.key)
			}
		}
	}
	infos, err := a.sessions(ctx, protocol.Walker{}.ValidNames(keys))
	if err != nil {
		return false, err
	}
	states, err := a.States(ctx, infos)
	if err != nil {
		return false, err
	}
	for _, s := range states {
		if !q.means(s) {
			continue
		}
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

func (q ListQuery) means(s SessionState) bool {
	switch q.State {
	case "":
		return true
	case StateAttention:
		return s.Paused || s.Suspended || s.Archived > 0 || s.Phase != session.PhaseIdle && s.Question != nil
	}
	return s.State == q.State
}
