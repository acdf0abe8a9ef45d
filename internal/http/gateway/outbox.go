package gateway

import (
	"net/http"
	"slices"
	"time"

	"turnstile/internal/protocol/wire"
	"turnstile/pkg/admin"
)

// messageDeliveries is how many of a session's deliveries are searched for those of one message.
const messageDeliveries = 100

// Delivery is a delivery that was not made.
type Delivery struct {
	Session     string    `json:"session"`
	Destination string    `json:"destination"`
	ID          string    `json:"id"`
	Sequence    int64     `json:"sequence"`
	Type        string    `json:"type"`
	Messages    []string  `json:"messages"`
	At          time.Time `json:"at"`
	Attempts    int       `json:"attempts,omitempty"`
	NextAt      time.Time `json:"next_at,omitzero"`
	Error       string    `json:"error,omitempty"`
	GivenUp     bool      `json:"undelivered,omitempty"`
}

// deliveries is a list of undelivered outcomes.
type deliveries struct {
	Deliveries []Delivery `json:"deliveries"`
	More       bool       `json:"more"` // there are more than the limit
	broken
}

// getOutbox lists deliveries: of one session, or of all that the token sees.
func (g *Gateway) getOutbox(w http.ResponseWriter, r *Request) error {
	if err := r.CheckQuery("session", "limit"); err != nil {
		return err
	}
	limit, err := r.Number("limit", 1, pageMost, pageDefault)
	if err != nil {
		return err
	}
	all, more, unread, err := collect(g, r, limit, admin.StateUndelivered, (*admin.Session).Deliveries)
	if err != nil {
		return err
	}
	list := deliveries{Deliveries: []Delivery{}, More: more, broken: unread}
	for _, d := range all {
		list.Deliveries = append(list.Deliveries, Delivery(d))
	}
	return Respond(w, http.StatusOK, list)
}

// deliveriesOf returns those of one message, as far as they are among the first of the session.
func (g *Gateway) deliveriesOf(r *Request, id string) (list []Delivery, err error) {
	ctx, cancel := r.More()
	defer cancel()
	looked := 0
	for d, err := range g.deps.Admin.Session(r.Session).Deliveries(ctx) {
		if err != nil {
			return nil, err
		}
		if slices.Contains(d.Messages, id) {
			list = append(list, Delivery(d))
		}
		if looked++; looked == messageDeliveries {
			break
		}
	}
	return list, nil
}

// postRedrive requeues a session's deliveries that were given up.
func (g *Gateway) postRedrive(w http.ResponseWriter, r *Request) error {
	var body struct {
		Session     string `json:"session"`
		Destination string `json:"destination"` // empty: all
	}
	if err := r.Decode(w, &body, true); err != nil {
		return err
	}
	if err := r.sees(body.Session); err != nil {
		return err
	}
	if body.Destination == "" {
		body.Destination = admin.All
	} else if err := wire.ValidateDestination(body.Destination); err != nil {
		return err
	}
	n, err := g.deps.Admin.Session(body.Session).Redrive(r.Work(), body.Destination)
	if err != nil {
		return err
	}
	return Respond(w, http.StatusOK, struct {
		Session  string `json:"session"`
		Redriven int    `json:"redriven"`
	}{body.Session, n})
}
