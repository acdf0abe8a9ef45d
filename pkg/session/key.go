package session

import (
	"fmt"
	"strings"
)

// The longest names.
const (
	maxKeyLen = 256 // characters of a session key
	maxIDLen  = 128 // characters of a message ID
)

// isName reports whether a name has only the allowed characters. asynqmon does not escape queue
// names and task IDs in its URLs: with one of / # % ? the button of one session would act on
// another. This is no regexp because sweeps call it for every session.
func isName(name string) bool {
	for i := range len(name) {
		switch c := name[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case i > 0 && strings.IndexByte("._:@+=~-", c) >= 0:
		default:
			return false
		}
	}
	return name != ""
}

// ValidateKey returns an error if key cannot name a session. A key has 1 to 256 characters of
// A-Za-z0-9._:@+=~-, and begins with a letter or digit. The error wraps ErrInvalid.
func ValidateKey(key string) error { return validateName("session key", key, maxKeyLen) }

// ValidateID returns an error if id cannot name a message. An ID has 1 to 128 of the characters of
// a session key. The error wraps ErrInvalid.
func ValidateID(id string) error { return validateName("message id", id, maxIDLen) }

func validateName(what, name string, limit int) error {
	switch {
	case name == "":
		return fmt.Errorf("%w %s: it is empty", ErrInvalid, what)
	case len(name) > limit:
		return fmt.Errorf("%w %s: %d characters, at most %d are allowed", ErrInvalid, what, len(name), limit)
	case !isName(name):
		return fmt.Errorf("%w %s %.100q: use letters, digits and ._:@+=~- only, the first a letter or digit", ErrInvalid, what, name)
	}
	return nil
}
