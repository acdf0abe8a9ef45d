package protocol

import (
	"strings"

	"turnstile/pkg/session"
)

type unchangedError struct{ error }

func (e unchangedError) Unwrap() error        { return e.error }
func (e unchangedError) Is(target error) bool { return target == session.ErrUnchanged }

// refusals are the prefixes of Redis' errors that precede any change: a script fails with one of
// them before its first write.
var refusals = []string{
	"READONLY ", "NOAUTH ", "WRONGPASS ", "NOPERM ", "OOM ", "LOADING ", "CLUSTERDOWN ", "MASTERDOWN ",
	"NOREPLICAS ", "MISCONF ", "DENIED ", "ERR max number of clients reached",
}

// Unchanged marks the error of a call's first change as session.ErrUnchanged if Redis refused it,
// or if surely says that nothing was sent. It searches the text, because asynq passes on only the
// words of Redis' error, behind its own.
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
