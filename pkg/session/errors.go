package session

import "errors"

// Errors of turnstile.Client and admin.Client.
var (
	// ErrUnchanged is wrapped by the error of a call that changed nothing: Redis refused its first
	// write, or it failed before that, in every attempt. After any other error the change may have been
	// made, because Redis' reply may have been lost.
	ErrUnchanged = errors.New("nothing was changed")

	// ErrBusy: a turn is running in the session.
	ErrBusy = errors.New("a turn is running")

	// ErrRunning: the message is part of a running turn.
	ErrRunning = errors.New("the message is part of a running turn")

	// ErrConflict: the message's id was used with another text, mode or other content.
	ErrConflict = errors.New("the id belongs to another message")

	// ErrExpired: the message was accepted before under its id, and neither it nor its result is
	// stored any more. It is not carried out again.
	ErrExpired = errors.New("the message was accepted before, and its result is no longer kept")

	// ErrNotLast: the message that a new one must follow is not the last of the conversation.
	ErrNotLast = errors.New("the conversation's last message is another one")

	// ErrNoTurn: the session's transcript has no turn to undo.
	ErrNoTurn = errors.New("the conversation has no turn")
)

// Errors of turnstile.Client's Decide and DecideQuestion. After them nothing was changed.
var (
	// ErrNoQuestion: no question is open.
	ErrNoQuestion = errors.New("no question is open")

	// ErrOtherQuestion: the open question is another one.
	ErrOtherQuestion = errors.New("another question is open")

	// ErrDecided: the question was decided before.
	ErrDecided = errors.New("the question was decided before")

	// ErrJustAsked: the open question is new, so the decision may be meant for the one before it.
	// Decide again with the question's number.
	ErrJustAsked = errors.New("the question was asked just now")
)
