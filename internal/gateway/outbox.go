package gateway

import (
	"net/http"
	"slices"

	"turnstile/pkg/admin"
	"turnstile/pkg/session"
)

// messageDeliveries is how many of a session's deliveries are searched for those of one message.
const messageDeliveries = 100

// deliveries is a list of what is not delivered.
type deliveries struct {
	Deliveries []admin.Delivery `json:"deliveries"`
	More       bool             `json:"more"` // there are more than the limit
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
	all, more, err := collect(r, limit, g.deps.Admin.SessionsWithDeliveries, g.deps.Admin.Outbox)
	if err != nil {
		return err
	}
	return Respond(w, http.StatusOK, deliveries{append([]admin.Delivery{}, all...), more})
}

// deliveriesOf returns those of one message, as far as they are among the first of the session.
func (g *Gateway) deliveriesOf(r *Request, id string) (list []admin.Delivery, err error) {
	ctx, cancel := r.More()
	defer cancel()
	looked := 0
	for d, err := range g.deps.Admin.Outbox(ctx, r.Session) {
		if err != nil {
			return nil, err
		}
		if slices.Contains(d.Messages, id) {
			list = append(list, d)
		}
		if looked++; looked == messageDeliveries {
			break
		}
	}
	return list, nil
}

// postRedrive puts a session's deliveries that were given up back in line.
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
	if body.Destination != "" {
		if err := session.ValidateDestination(body.Destination); err != nil {
			return err
		}
	}
	n, err := g.deps.Admin.Redrive(r.Work(), body.Session, body.Destination)
	if err != nil {
		return err
	}
	return Respond(w, http.StatusOK, struct {
		Session  string `json:"session"`
		Redriven int    `json:"redriven"`
	}{body.Session, n})
}
