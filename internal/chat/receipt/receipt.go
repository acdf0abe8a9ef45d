// Package receipt is for programs with a text box: it sends a person's input or carries it out as a
// command, and has the JSON of the result.
package receipt

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"turnstile"
	"turnstile/pkg/session"
)

// Status is the result of an input.
type Status string

// The statuses of a Receipt.
const (
	Accepted  Status = "accepted"  // stored; no turn is running
	Queued    Status = "queued"    // waits for a running turn, see Position
	Scheduled Status = "scheduled" // stored as a delayed message, see At
	Duplicate Status = "duplicate" // a message with this ID is stored, see State
	Refused   Status = "refused"   // not stored, see Err
	Answered  Status = "answered"  // a slash command was carried out, see Reply
)

// Receipt is the JSON that the gateway and enqueue write (docs/http.md, docs/commands.md).
type Receipt struct {
	Session     string               `json:"session"`
	ID          string               `json:"id,omitempty"` // the message's
	Status      Status               `json:"status"`
	Position    int                  `json:"position,omitempty"`
	At          time.Time            `json:"at,omitzero"`
	EventsAfter string               `json:"events_after,omitempty"` // turnstile.Receipt.EventsSince in ms
	State       session.MessageState `json:"state,omitempty"`        // of a duplicate

	// Reply is a command's text for the user. Invalid says that its arguments were wrong and that it
	// changed nothing. Then Reply explains the error.
	Reply   string `json:"reply,omitempty"`
	Invalid bool   `json:"invalid,omitempty"`

	// Reason is the word for Err, the reason of a refusal.
	Reason string `json:"reason,omitempty"`
	Err    error  `json:"-"`
}

// reasons are the words for refusals. The first match counts.
var reasons = []struct {
	err  error
	word string
}{
	{session.ErrBusy, "busy"}, {session.ErrFollowupsFull, "full"}, {session.ErrQueueFull, "line"}, {session.ErrAllQueuesFull, "messages"},
	{session.ErrOutboxFull, "outbox"}, {session.ErrConflict, "conflict"}, {session.ErrExpired, "expired"}, {session.ErrNotLast, "not_last"},
	{session.ErrOtherAgent, "agent"},
}

// Of returns the receipt of a message that was sent.
func Of(r turnstile.Receipt) Receipt {
	all := Receipt{Session: r.Session, ID: r.ID, Status: Accepted, Position: r.Position, At: r.At}
	if !r.EventsSince.IsZero() {
		all.EventsAfter = strconv.FormatInt(r.EventsSince.UnixMilli(), 10)
	}
	switch {
	case r.Duplicate:
		all.Status, all.State = Duplicate, r.State
	case r.State == session.MessageScheduled:
		all.Status = Scheduled
	case r.Position > 0:
		all.Status = Queued
	}
	return all
}

// Input sends a message, or carries it out if its text is a command. A refused message is no error.
// The receipt's status is Answered also if a command returned an error.
func Input(ctx context.Context, chat *turnstile.Session, m turnstile.Message) (Receipt, error) {
	m, command := turnstile.ParseInput(m)
	if command {
		return carryOut(ctx, chat, m)
	}
	r, err := chat.Send(ctx, m)
	if err == nil {
		return Of(r), nil
	}
	if word := reason(err); word != "" {
		return Receipt{Session: chat.Key(), ID: m.ID, Status: Refused, Reason: word, Err: err}, nil
	}
	return Receipt{}, err
}

func reason(err error) string {
	for _, r := range reasons {
		if errors.Is(err, r.err) {
			return r.word
		}
	}
	return ""
}

func carryOut(ctx context.Context, chat *turnstile.Session, m turnstile.Message) (Receipt, error) {
	if m.Delay > 0 {
		return Receipt{}, fmt.Errorf("%w delay: the command %s is carried out at once; write /%[2]s to send it as a message", session.ErrInvalid, m.Text)
	}
	r := Receipt{Session: chat.Key(), Status: Answered}
	if err := session.ValidateKey(r.Session); err != nil {
		return Receipt{}, err
	}
	var err error
	r.Reply, err = chat.Command(ctx, m.Text, turnstile.CommandConfig{ID: m.ID})
	switch {
	case errors.Is(err, session.ErrConflict):
		return Receipt{Session: r.Session, ID: m.ID, Status: Refused, Reason: reason(err), Err: err}, nil
	case errors.Is(err, session.ErrInvalid):
		r.Reply, r.Invalid, err = err.Error(), true, nil
	}
	return r, err
}
