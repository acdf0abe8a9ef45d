package protocol

import (
	"errors"
	"strings"
)

// ErrUnchanged is what an error of a Client's call also is, by errors.Is, if Redis
// has refused the call's first change, or the call has failed before it had sent that:
// nothing was stored and nothing was done.
// Without it that is not known, for a reply may have been lost.
var ErrUnchanged = errors.New("nothing was changed")

type unchangedError struct{ error }

func (e unchangedError) Unwrap() error        { return e.error }
func (e unchangedError) Is(target error) bool { return target == ErrUnchanged }

// refusals begin the answers that Redis gives before it has carried anything out: of
// a script, before its first write.
var refusals = []string{
	"READONLY ", "NOAUTH ", "WRONGPASS ", "NOPERM ", "OOM ", "LOADING ", "CLUSTERDOWN ", "MASTERDOWN ",
	"NOREPLICAS ", "MISCONF ", "DENIED ", "ERR max number of clients reached",
}

// unchanged marks the error of a call's first change as ErrUnchanged, if it is a
// refusal. asynq hands on no more than Redis' words, behind its own.
func unchanged(err error) error {
	if err == nil {
		return nil
	}
	text := ": " + err.Error()
	for _, r := range refusals {
		if strings.Contains(text, ": "+r) {
			return unchangedError{err}
		}
	}
	return err
}
