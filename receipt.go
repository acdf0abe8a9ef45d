package turnstile

import (
	"errors"
	"fmt"

	"turnstile/pkg/session"
)

// Why a message was refused, in a Receipt.
const (
	ReasonBusy     = "busy"     // a turn is running, and the mode is reject
	ReasonFull     = "full"     // behind a turn as many wait as may, and the drop policy is new
	ReasonLine     = "line"     // as many wait in the session as may at all, see ClientConfig
	ReasonMessages = "messages" // as many wait in all sessions together
)

// What Receipt.Err wraps, beside ErrBusy.
var (
	ErrFollowupsFull = errors.New("too many messages wait for the running turn")
	ErrLineFull      = errors.New("too many messages wait in the session")
	ErrMessagesFull  = errors.New("too many messages wait in all sessions")
)

// Err is why a message was refused, as an error: it wraps ErrBusy, ErrFollowupsFull,
// ErrLineFull or ErrMessagesFull. Nil: it was not refused.
func (r Receipt) Err() error {
	if r.Status != Refused {
		return nil
	}
	err := map[string]error{
		ReasonBusy: session.ErrBusy, ReasonFull: ErrFollowupsFull, ReasonLine: ErrLineFull, ReasonMessages: ErrMessagesFull,
	}[r.Reason]
	return fmt.Errorf("message %s of %s was refused: %w", r.ID, r.Session, err)
}
