package session

import "errors"

// Errors that more than one package returns.
var (
	// ErrUnchanged marks an error of a call whose first write Redis refused, or that failed
	// before it: nothing was stored and nothing was done. An error without it leaves that
	// open, for a reply may have been lost.
	ErrUnchanged = errors.New("nothing was changed")

	ErrBusy   = errors.New("a turn is running")
	ErrNoTurn = errors.New("the conversation has no turn")
)

// Errors of an answer to a question.
var (
	ErrNoQuestion    = errors.New("nothing is asked")
	ErrOtherQuestion = errors.New("another question is asked")
	ErrAnswered      = errors.New("it was answered already")
	ErrJustAsked     = errors.New("the question was asked just now")
)
