package session

import (
	"cmp"
	"fmt"
)

// Status says how a message ended.
type Status string

// The statuses of an Outcome. StatusDone leaves no dead letter, and StatusInterrupted only one
// after ModeRollback, or if the worker that was to end the turn died. All others make the message a
// dead letter.
const (
	StatusDone        Status = "done"        // Reply has the reply
	StatusFailed      Status = "failed"      // Error has the reason
	StatusInterrupted Status = "interrupted" // a newer message cancelled the turn
	StatusExpired     Status = "expired"     // it waited longer than it may
	StatusStopped     Status = "stopped"     // by Stop or /stop
	StatusDropped     Status = "dropped"     // a full queue dropped it
)

// Outcome is how a message ended.
type Outcome struct {
	Session      string `json:"session"`
	TranscriptID string `json:"session_id,omitempty"`
	ID           string `json:"id"`
	Turn         string `json:"turn,omitempty"`
	Continues    string `json:"continues,omitempty"` // the turn's first run, see Event.Continues
	Status       Status `json:"status"`
	Reply        string `json:"reply"`

	// Error is a sentence for users that says why the status is not StatusDone.
	Error string `json:"error,omitempty"`

	// Code is the kind of a failure: one of the codes below, if the status is StatusFailed, or CodeLength if it is
	// StatusDone. Earlier workers stored none.
	Code string `json:"code,omitempty"`

	// Detail is for operators: the agent's error as it is, which may have lines of its stderr,
	// paths and secrets. May be empty.
	Detail string `json:"detail,omitempty"`

	Duration Millis `json:"duration_ms"`     // of the turn, from its claim
	Usage    *Usage `json:"usage,omitempty"` // of the turn; nil if the agent reported none
}

// CodeLength is the code of a message that is done with a reply which the model ended at the limit of its length.
const CodeLength = "length"

// The codes of a failure.
const (
	CodeAgentFailed    = "agent_failed"    // the agent ended with an error
	CodeTimeout        = "timeout"         // the agent took too long
	CodeWorkerDied     = "worker_died"     // too many turns of the message ended with their worker's death
	CodeInvalidMessage = "invalid_message" // it cannot be read, or breaks a limit
	CodeInternal       = "internal"        // the turn panicked, or could not be stored
	CodeArchived       = "archived"        // an operator, or another program, archived it
)

// Err returns nil if the status is StatusDone, else an error with the status and Error.
func (o Outcome) Err() error {
	switch {
	case o.Status == StatusDone:
		return nil
	case o.Error == "":
		return fmt.Errorf("message %s: %s", o.ID, o.Status)
	}
	return fmt.Errorf("message %s: %s: %s", o.ID, o.Status, o.Error)
}

// Why is the reason for operators: Detail if there is one, else Error.
func (o Outcome) Why() string { return cmp.Or(o.Detail, o.Error) }
