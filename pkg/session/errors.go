package session

import "errors"

// Errors of turnstile.Client and admin.Client.
var (
	// ErrUnchanged is wrapped by the error of a call that changed nothing: Redis refused its first
	// write, or it failed before that. After any other error the change may have been made, because
	// Redis' reply may have been lost.
	ErrUnchanged = errors.New("nothing was changed")

	// ErrBusy: a turn is running in the session.
	ErrBusy = errors.New("a turn is running")

	// ErrNoTurn: the session's transcript has no turn to undo.
	ErrNoTurn = errors.New("the conversation has no turn")
)

// Errors of turnstile.Client.Decide. After them nothing was changed.
var (
	// ErrNoQuestion: no question is open.
	ErrNoQuestion = errors.New("no question is open")

	// ErrOtherQuestion: the open question has another number.
	ErrOtherQuestion = errors.New("another question is open")

	// ErrDecided: the question was decided before.
	ErrDecided = errors.New("the question was decided before")

	// ErrJustAsked: the open question is new, so the decision may be meant for the one before it.
	// Decide again with the question's number.
	ErrJustAsked = errors.New("the question was asked just now")
)
