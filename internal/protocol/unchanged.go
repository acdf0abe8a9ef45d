package protocol

import (
	"turnstile/internal/redis/redisconn"
	"turnstile/pkg/session"
)

type unchangedError struct{ error }

func (e unchangedError) Unwrap() error        { return e.error }
func (e unchangedError) Is(target error) bool { return target == session.ErrUnchanged }

// Unchanged marks the error of a call's first change as session.ErrUnchanged if the error, or
// surely, says that nothing was changed.
func Unchanged(err error, surely bool) error {
	if err != nil && (surely || redisconn.Unchanged(err)) {
		return unchangedError{err}
	}
	return err
}
