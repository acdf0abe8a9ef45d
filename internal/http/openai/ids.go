package openai

import (
	"encoding/base64"
	"strings"

	"turnstile/pkg/session"
)

// place is the message of a response: its session and ID.
type place struct{ session, message string }

const responsePrefix = "resp_"

// id returns the response's ID. It encodes the place, so every gateway finds it after any restart.
func (p place) id() string {
	return responsePrefix + base64.RawURLEncoding.EncodeToString([]byte(p.session+"\n"+p.message))
}

// parseResponseID reads a response's ID.
func parseResponseID(id string) (p place, ok bool) {
	encoded, ok := strings.CutPrefix(id, responsePrefix)
	if !ok {
		return p, false
	}
	data, err := base64.RawURLEncoding.Strict().DecodeString(encoded)
	if err != nil {
		return p, false
	}
	p.session, p.message, ok = strings.Cut(string(data), "\n")
	// The decoder skips line breaks.
	return p, ok && p.id() == id && session.ValidateKey(p.session) == nil && session.ValidateID(p.message) == nil
}
