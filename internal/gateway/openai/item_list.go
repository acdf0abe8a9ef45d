package openai

import (
	"net/http"
	"slices"

	"turnstile/internal/gateway"
)

// itemList is a page of a list of items, which see fills from the list's end. It holds no more than the page.
type itemList struct {
	after     string // the page begins after this item
	ascending bool
	limit     int

	found bool // after was seen
	items []any
}

// The number of items of a page.
const (
	itemsMost    = 100
	itemsDefault = 20
)

// listed reads which page a request wants.
func listed(r *gateway.Request) (*itemList, error) {
	q := &itemList{after: r.URL.Query().Get("after")}
	var err error
	if q.limit, err = r.Number("limit", 1, itemsMost, itemsDefault); err != nil {
		return nil, err
	}
	switch r.URL.Query().Get("order") {
	case "asc":
		q.ascending = true
	case "", "desc":
	default:
		return nil, refuse("order", "order is asc or desc.")
	}
	q.found = q.after == ""
	return q, nil
}

// see adds an item that comes before those that were seen. It reports whether the page needs more of them.
func (q *itemList) see(item any) bool {
	isAfter := !q.found && idOf(item) == q.after
	q.found = q.found || isAfter
	switch {
	case q.ascending && isAfter:
		return false // the items seen before come next
	case isAfter, !q.ascending && !q.found:
		return true
	}
	q.items = append(q.items, item)
	if !q.ascending {
		return len(q.items) <= q.limit
	}
	if len(q.items) > q.limit+1 {
		q.items = slices.Delete(q.items, 0, 1)
	}
	return true
}

// respond sends the page.
func (q *itemList) respond(w http.ResponseWriter) error {
	if !q.found {
		return refuse("after", "The list has no item %.100q.", q.after)
	}
	if q.ascending {
		slices.Reverse(q.items)
	}
	page := struct {
		Object string `json:"object"`
		Data   []any  `json:"data"`
		First  string `json:"first_id"`
		Last   string `json:"last_id"`
		More   bool   `json:"has_more"`
	}{"list", append([]any{}, q.items[:min(len(q.items), q.limit)]...), "", "", len(q.items) > q.limit}
	if n := len(page.Data); n > 0 {
		page.First, page.Last = idOf(page.Data[0]), idOf(page.Data[n-1])
	}
	return gateway.Respond(w, http.StatusOK, page)
}

// idOf is the ID of an item.
func idOf(item any) string {
	switch i := item.(type) {
	case textItem:
		return i.ID
	case toolItem:
		return i.ID
	case inputItem:
		return i.ID
	}
	return ""
}
