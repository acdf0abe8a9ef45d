package session

import "errors"

// Errors of the clients of packages turnstile and admin.
var (
	// ErrUnchanged is wrapped by the error of a call that changed nothing: Redis refused
	// its first write, or it failed before. After an error that does not wrap it the change
	// may have been made, for Redis' reply may have been lost.
	ErrUnchanged = errors.New("nothing was changed")

	// ErrBusy: a turn is running in the session.
	ErrBusy = errors.New("a turn is running")

	// ErrNoTurn: the session's transcript has no turn to undo.
	ErrNoTurn = errors.New("the conversation has no turn")
)

// Errors of a decision. Each changes nothing.
var (
	// ErrNoQuestion: no question is open.
	ErrNoQuestion = errors.New("no question is open")

	// ErrOtherQuestion: the open question has another number.
	ErrOtherQuestion = errors.New("another question is open")

	// ErrDecided: the question was decided before.
	ErrDecided = errors.New("the question was decided before")

	// ErrJustAsked: the open question is so new that the decision may be meant for the one
	// before it. Decide by its number.
	ErrJustAsked = errors.New("the question was asked just now")
)
