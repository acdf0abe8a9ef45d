package openai

import (
	"net/http"
	"slices"

	"turnstile/internal/http/gateway"
)

// itemList is a page of a list of items, which see fills in the order of the list.
type itemList struct {
	after     string // the page begins after this item
	ascending bool
	limit     int

	found bool // after was seen
	items []any
	bytes int
	more  bool // an item comes after the page
}

// The number of items of a page. One with long items has fewer.
const (
	itemsMost    = 100
	itemsDefault = 20
	itemsBytes   = 2 << 20
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

// seeAll adds items, which come after those that were seen, as conversations have them: the oldest first. It reports
// whether the page needs more.
func (q *itemList) seeAll(items []any) bool {
	if !q.ascending {
		slices.Reverse(items)
	}
	for _, item := range items {
		if !q.see(item) {
			return false
		}
	}
	return true
}

// see adds an item that comes after those that were seen. It reports whether the page needs more.
func (q *itemList) see(item any) bool {
	id, bytes := about(item)
	switch {
	case !q.found:
		q.found = id == q.after
		return true
	case len(q.items) == q.limit, len(q.items) > 0 && q.bytes+bytes > itemsBytes:
		q.more = true
		return false
	}
	q.items, q.bytes = append(q.items, item), q.bytes+bytes
	return true
}

// respond sends the page.
func (q *itemList) respond(w http.ResponseWriter) error {
	if !q.found {
		return refuse("after", "The list has no item %.100q.", q.after)
	}
	page := struct {
		Object string `json:"object"`
		Data   []any  `json:"data"`
		First  string `json:"first_id"`
		Last   string `json:"last_id"`
		More   bool   `json:"has_more"`
	}{"list", append([]any{}, q.items...), "", "", q.more}
	if n := len(page.Data); n > 0 {
		page.First, _ = about(page.Data[0])
		page.Last, _ = about(page.Data[n-1])
	}
	return gateway.Respond(w, http.StatusOK, page)
}

// about returns an item's ID, and about how many bytes it has.
func about(item any) (id string, bytes int) {
	switch i := item.(type) {
	case textItem:
		for _, p := range i.Content {
			bytes += len(p.Text)
		}
		return i.ID, bytes
	case toolItem:
		return i.ID, len(i.Name)
	case callItem:
		return i.ID, len(i.Name) + len(i.Arguments)
	case resultItem:
		if parts, ok := i.Output.([]inputPart); ok {
			return i.ID, bytesOf(parts)
		}
		text, _ := i.Output.(string)
		return i.ID, len(text)
	case inputItem:
		return i.ID, bytesOf(i.Content)
	}
	return "", 0
}

func bytesOf(parts []inputPart) (bytes int) {
	for _, p := range parts {
		bytes += len(p.Text) + len(p.ImageURL) + len(p.FileURL) + len(p.FileData)
	}
	return bytes
}
