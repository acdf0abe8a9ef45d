package wire

import (
	"encoding/json"
	"fmt"
	"regexp"
	"time"
	"unicode/utf8"

	"turnstile/pkg/session"
)

// MaxContext is how many bytes the context of a Route may have.
const MaxContext = 2048

// Route says where the outcome of a message goes. See docs/webhooks.md.
type Route struct {
	// To is the name of a destination: up to 64 of the characters a-z, 0-9, - and _, the first a
	// letter or digit. NoReply is none.
	To string `json:"to,omitempty"`

	// Context is JSON that every delivery includes, for example the chat in which to reply. It has
	// at most MaxContext bytes.
	Context json.RawMessage `json:"context,omitempty"`

	// By is the deadline for delivering the outcome: yesterday's reply, for example, may be wrong
	// in a chat. Within is the same deadline, counted from the message's acceptance by Redis'
	// clock, in whole ms. Use one of them. Defaults to the destination's max_age, which counts from
	// the outcome.
	By     time.Time     `json:"-"`
	Within time.Duration `json:"-"`
}

var destination = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)

// ValidateDestination checks the name of a destination. The error wraps ErrInvalid.
func ValidateDestination(name string) error {
	if !destination.MatchString(name) {
		return fmt.Errorf("%w destination %.100q: use up to 64 of a-z, 0-9, - and _, beginning with a letter or digit", session.ErrInvalid, name)
	}
	return nil
}

// Validate checks the route. The error wraps ErrInvalid.
func (r Route) Validate() error {
	if r.To != "" && r.To != session.NoReply {
		if err := ValidateDestination(r.To); err != nil {
			return err
		}
	}
	switch {
	case r.Within < 0 || r.Within > 0 && r.Within < time.Millisecond:
		return fmt.Errorf("%w deliver_by %s: it must be at least 1ms", session.ErrInvalid, r.Within)
	case r.Within > 0 && !r.By.IsZero():
		return fmt.Errorf("%w deliver_by: it is a time and a duration: use one of them", session.ErrInvalid)
	case len(r.Context) > MaxContext:
		return fmt.Errorf("%w context: it has %d bytes, at most %d are allowed", session.ErrInvalid, len(r.Context), MaxContext)
	case len(r.Context) > 0 && !json.Valid(r.Context):
		return fmt.Errorf("%w context: it is no JSON", session.ErrInvalid)
	case !utf8.Valid(r.Context):
		return fmt.Errorf("%w context: it is not UTF-8", session.ErrInvalid)
	}
	return nil
}

// DeliverBy returns the route with By or Within set from a text: an RFC 3339 time, or a duration
// above 0 in ParseDuration's form. An empty text sets neither. The error wraps ErrInvalid.
func (r Route) DeliverBy(text string) (Route, error) {
	r.By, r.Within = time.Time{}, 0
	if text == "" {
		return r, nil
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		r.By = at
		return r, nil
	}
	within, err := ParseDuration(text)
	if err != nil || within < time.Millisecond {
		return r, fmt.Errorf("%w deliver_by %.100q: write a time such as 2026-11-24T18:00:00Z, or a duration above 0 such as 10m", session.ErrInvalid, text)
	}
	r.Within = within
	return r, nil
}
