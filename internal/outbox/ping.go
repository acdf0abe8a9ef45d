package outbox

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"turnstile/internal/protocol/deliveries"
)

// pingTime is how long a ping may take.
const pingTime = 15 * time.Second

// PingType is the type of a ping. Its data is empty.
const PingType = "ping"

// Ping posts a signed ping to a destination, under the rules of deliveries: the same addresses, and no
// redirects. It returns the status of the response; without one the error says why.
func Ping(ctx context.Context, to *Destination) (status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, pingTime)
	defer cancel()
	p := newPoster(1, nil)
	defer p.close()
	body, err := json.Marshal(struct {
		Type      string    `json:"type"`
		Timestamp time.Time `json:"timestamp"`
		Data      struct{}  `json:"data"`
	}{Type: PingType, Timestamp: time.Now().UTC()})
	if err != nil {
		return 0, err
	}
	a := p.post(ctx, to, deliveries.Delivery{ID: "ping-" + strings.ToLower(rand.Text()), Attempt: 1, Body: body})
	if a.status/100 == 2 {
		return a.status, nil
	}
	return a.status, errors.New(a.why())
}
