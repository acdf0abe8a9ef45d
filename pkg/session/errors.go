package session

import "errors"

// Every refusal wraps ErrRefused: nothing was changed, and the same call is refused until something
// else changes. An error that wraps ErrUnchanged and not ErrRefused is a failure before the first
// write: the same call may succeed. After any other error of a change, the change may have been made,
// because Redis' reply may have been lost.
var (
	// ErrUnchanged: nothing was changed. Every refusal wraps it, too.
	ErrUnchanged = errors.New("nothing was changed")

	// ErrRefused: the call was decided, and changed nothing. All errors below wrap it.
	ErrRefused = refusal("refused", ErrUnchanged)

	// ErrInvalid: a value breaks a rule, which the error's text names.
	ErrInvalid = refusal("invalid", ErrRefused)

	// ErrTooLarge: the message is larger than Limits allow. It wraps ErrInvalid.
	ErrTooLarge = refusal("invalid", ErrInvalid)

	// ErrNotFound: the message is not stored. It was never sent, its result has expired
	// (TURNSTILE_RETENTION), or an operator deleted it.
	ErrNotFound = refusal("unknown message", ErrRefused)

	// ErrBusy: a turn is running in the session.
	ErrBusy = refusal("a turn is running", ErrRefused)

	// ErrRunning: the message is part of a running turn.
	ErrRunning = refusal("the message is part of a running turn", ErrRefused)

	// ErrConflict: the message's ID was used with another text, mode or other content.
	ErrConflict = refusal("the id belongs to another message", ErrRefused)

	// ErrNotLast: the message that a new one must follow is not the session's last.
	ErrNotLast = refusal("the session's last message is another one", ErrRefused)

	// ErrOtherAgent: the session has another agent. Another one begins with a new transcript.
	ErrOtherAgent = refusal("the session has another agent", ErrRefused)

	// ErrNoTurn: the session's transcript has no turn to undo.
	ErrNoTurn = refusal("the transcript has no turn", ErrRefused)

	// ErrLastFailed: the session's last message failed or was stopped and left nothing in the transcript, so there is
	// nothing to undo. Retry runs it again.
	ErrLastFailed = refusal("the last message failed or was stopped, and left nothing in the transcript", ErrRefused)

	// ErrUndelivered: the session has undelivered outcomes (admin.Session.Erase).
	ErrUndelivered = refusal("outcomes are not delivered", ErrRefused)
)

// ErrBroken says that a key of the session has another type than Turnstile gave it. The session cannot be read, others can.
// docs/runbook.md says how to mend it.
var ErrBroken = errors.New("a key has a wrong type")

// ErrExpired says that the message or command was accepted before under its ID, and its result is
// no longer stored. It was carried out, or may have been, so this is not a refusal. It is not
// carried out again.
var ErrExpired = errors.New("the message was accepted before, and its result is no longer kept")

// Queues that are full. Each of these errors wraps ErrFull: send the message again later.
var (
	ErrFull = refusal("full", ErrRefused)

	// ErrFollowupsFull: QueueSettings.Cap messages wait for the running turn, and the session's drop
	// policy is DropNew.
	ErrFollowupsFull = refusal("too many messages wait for the running turn", ErrFull)

	// ErrQueueFull: the session's queue has Limits.Queue messages.
	ErrQueueFull = refusal("too many messages wait in the session", ErrFull)

	// ErrAllQueuesFull: Limits.AllQueues messages wait in all sessions.
	ErrAllQueuesFull = refusal("too many messages wait in all sessions", ErrFull)

	// ErrOutboxFull: too many outcomes of the session, or for the message's destination, are not
	// delivered.
	ErrOutboxFull = refusal("too many outcomes of the session, or for its destination, are not delivered yet", ErrFull)
)

// Decisions about an agent's question that are refused.
var (
	// ErrNoQuestion: no question is open.
	ErrNoQuestion = refusal("no question is open", ErrRefused)

	// ErrOtherQuestion: the open question is another one.
	ErrOtherQuestion = refusal("another question is open", ErrRefused)

	// ErrDecided: the question was decided before.
	ErrDecided = refusal("the question was decided before", ErrRefused)

	// ErrNoWait: no turn of the session waits for the value.
	ErrNoWait = refusal("no turn waits for this value", ErrRefused)

	// ErrGiven: another value was given before.
	ErrGiven = refusal("another value was given before", ErrRefused)

	// ErrWrongSecret: the wait has another secret.
	ErrWrongSecret = refusal("the secret is wrong", ErrRefused)

	// ErrJustAsked: the open question is new, so the decision may be meant for the one before it.
	// Decide again with the question's ID or number.
	ErrJustAsked = refusal("the question was asked just now", ErrRefused)
)

// refused is a sentinel error below another one.
type refused struct {
	text  string
	above error
}

func refusal(text string, above error) error { return &refused{text, above} }

func (e *refused) Error() string { return e.text }
func (e *refused) Unwrap() error { return e.above }
