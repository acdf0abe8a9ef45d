package session

import (
	"encoding/json"
	"fmt"
	"regexp"
	"unicode/utf8"
)

// NoReply is the destination of a message whose outcome goes nowhere, although its session has a
// destination.
const NoReply = "-"

// MaxContext is how many bytes the context of a Route may have.
const MaxContext = 2048

// Route says where the outcome of a message goes. See docs/webhooks.md.
type Route struct {
	// To is the name of a destination: up to 64 of the characters a-z, 0-9, - and _, the first a
	// letter or digit. NoReply is none.
	To string `json:"to,omitempty"`

	// Context is JSON that every delivery repeats, for example the chat in which to reply. It has
	// at most MaxContext bytes.
	Context json.RawMessage `json:"context,omitempty"`
}

var destination = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)

// ValidateDestination checks the name of a destination. The error wraps ErrInvalid.
func ValidateDestination(name string) error {
	if !destination.MatchString(name) {
		return fmt.Errorf("%w destination %.100q: use up to 64 of a-z, 0-9, - and _, beginning with a letter or digit", ErrInvalid, name)
	}
	return nil
}

// Validate checks the route. The error wraps ErrInvalid.
func (r Route) Validate() error {
	if r.To != "" && r.To != NoReply {
		if err := ValidateDestination(r.To); err != nil {
			return err
		}
	}
	switch {
	case len(r.Context) > MaxContext:
		return fmt.Errorf("%w context: it has %d bytes, at most %d are allowed", ErrInvalid, len(r.Context), MaxContext)
	case len(r.Context) > 0 && !json.Valid(r.Context):
		return fmt.Errorf("%w context: it is no JSON", ErrInvalid)
	case !utf8.Valid(r.Context):
		return fmt.Errorf("%w context: it is not UTF-8", ErrInvalid)
	}
	return nil
}

// DestinationState says why deliverers send nothing to a destination. The zero value is a destination
// that gets its deliveries.
type DestinationState struct {
	Paused   bool   `json:"paused,omitempty"`   // its deliveries wait
	Disabled bool   `json:"disabled,omitempty"` // its receiver wants none: they wait until an operator enables it
	Why      string `json:"why,omitempty"`

	// At is a time in ms since 1970. If Paused, deliverers try again then; 0: not before an operator
	// enables the destination. If Disabled, it is since when.
	At int64 `json:"at,omitempty"`
}
