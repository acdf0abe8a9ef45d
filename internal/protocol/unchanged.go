package protocol

import (
	"strings"

	"turnstile/pkg/session"
)

type unchangedError struct{ error }

func (e unchangedError) Unwrap() error        { return e.error }
func (e unchangedError) Is(target error) bool { return target == session.ErrUnchanged }

// refusals begin the answers that Redis gives before it has carried anything out: of
// a script, before its first write.
var refusals = []string{
	"READONLY ", "NOAUTH ", "WRONGPASS ", "NOPERM ", "OOM ", "LOADING ", "CLUSTERDOWN ", "MASTERDOWN ",
	"NOREPLICAS ", "MISCONF ", "DENIED ", "ERR max number of clients reached",
}

// Unchanged marks the error of a call's first change as ErrUnchanged, if Redis refused it
// or if surely says that nothing was sent. asynq passes on no more than Redis' words,
// behind its own.
func Unchanged(err error, surely bool) error {
	if err == nil {
		return nil
	}
	if surely {
		return unchangedError{err}
	}
	text := ": " + err.Error()
	for _, r := range refusals {
		if strings.Contains(text, ": "+r) {
			return unchangedError{err}
		}
	}
	return err
}
