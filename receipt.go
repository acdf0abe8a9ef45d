package turnstile

import (
	"errors"
	"fmt"
	"time"

	"turnstile/pkg/session"
)

// ReceiptStatus is what Submit did with a message.
type ReceiptStatus string

// The statuses of a Receipt.
const (
	Accepted  ReceiptStatus = "accepted"  // stored; no turn is running
	Queued    ReceiptStatus = "queued"    // stored behind a running turn, see Position
	Scheduled ReceiptStatus = "scheduled" // stored as a delayed message, see At
	Duplicate ReceiptStatus = "duplicate" // a message with this id is stored, see State
	Refused   ReceiptStatus = "refused"   // not stored, see Err
	Answered  ReceiptStatus = "answered"  // a slash command was carried out, see Reply
)

// Receipt is the result of Submit.
type Receipt struct {
	Session string        `json:"session"`
	ID      string        `json:"id,omitempty"` // the message's
	Status  ReceiptStatus `json:"status"`

	// Position is the message's place in the session's line, if Status is Queued. The running turn
	// is 1.
	Position int `json:"position,omitempty"`

	// At is when a delayed message joins the line, by Redis' clock.
	At time.Time `json:"at,omitzero"`

	// EventsAfter is a time in ms, by Redis' clock, shortly before the message was stored: its
	// events come later. Empty for a duplicate, whose events may be older.
	EventsAfter string `json:"events_after,omitempty"`

	// State is the state of a duplicate's message: pending, scheduled, running, completed,
	// archived, or gone (deleted).
	State string `json:"state,omitempty"`

	// Reason says why the message was refused: busy, full, line, messages, outbox, conflict,
	// expired or not_last. Err returns it as an error.
	Reason string `json:"reason,omitempty"`

	// Reply is what a slash command tells the user. Invalid says that its arguments were wrong and
	// that it changed nothing; then Reply explains them.
	Reply   string `json:"reply,omitempty"`
	Invalid bool   `json:"invalid,omitempty"`
}

// Values of Receipt.Reason.
const (
	reasonBusy     = "busy"
	reasonFull     = "full"
	reasonLine     = "line"
	reasonMessages = "messages"
	reasonOutbox   = "outbox"
	reasonConflict = "conflict"
	reasonExpired  = "expired"
	reasonNotLast  = "not_last"
)

// Errors of Receipt.Err, besides session.ErrBusy.
var (
	// ErrFollowupsFull: the session's cap of follow-ups is reached (session.QueueSettings.Cap), and
	// its drop policy is session.DropNew.
	ErrFollowupsFull = errors.New("too many messages wait for the running turn")

	// ErrLineFull: ClientConfig.LineCap is reached.
	ErrLineFull = errors.New("too many messages wait in the session")

	// ErrMessagesFull: ClientConfig.MessagesCap is reached.
	ErrMessagesFull = errors.New("too many messages wait in all sessions")

	// ErrOutboxFull: ClientConfig.OutboxCap or DestinationCap is reached.
	ErrOutboxFull = errors.New("too many outcomes of the session, or for its destination, are not delivered yet")
)

// Err returns why a message was refused, and nil if it was not. The error wraps session.ErrBusy (a
// turn is running, and the message's mode is session.ModeReject), ErrFollowupsFull, ErrLineFull,
// ErrMessagesFull, ErrOutboxFull, session.ErrConflict, session.ErrExpired or session.ErrNotLast.
func (r Receipt) Err() error {
	if r.Status != Refused {
		return nil
	}
	err := map[string]error{
		reasonBusy: session.ErrBusy, reasonFull: ErrFollowupsFull, reasonLine: ErrLineFull, reasonMessages: ErrMessagesFull, reasonOutbox: ErrOutboxFull,
		reasonConflict: session.ErrConflict, reasonExpired: session.ErrExpired, reasonNotLast: session.ErrNotLast,
	}[r.Reason]
	return fmt.Errorf("message %s of %s was refused: %w", r.ID, r.Session, err)
}
