// Package agent is what Turnstile asks of an AI agent: run one turn, say what
// happens on the way, stop when told to. The adapters are its subpackages; a Go
// program can bring its own.
package agent

import (
	"context"
	"encoding/json"
	"errors"

	"turnstile/pkg/session"
)

// Agent runs turns. One Agent serves all sessions of a worker, concurrently.
type Agent interface {
	// Run runs one turn and returns when it has ended for good: nothing that
	// it started may still be at work. When ctx is cancelled the agent is to
	// stop soon and return; context.Cause tells why. What it had emitted until
	// then is kept.
	//
	// emit may be called from several goroutines, until Run returns. It does
	// not block for long and does not retain the event.
	//
	// An error is final, for agents have side effects, unless it is marked
	// with Retryable.
	Run(ctx context.Context, turn Turn, emit func(Event)) (Result, error)
}

// Immediate is implemented by agents that have no start worth a phase of its
// own and want no history. Their turns are claimed as running and without
// Turn.History and Turn.State, which saves two round trips. An agent that keeps
// state must not be Immediate.
type Immediate interface{ Immediate() bool }

// Turn is one run of an agent.
type Turn struct {
	Session   string `json:"session"`    // the session key
	SessionID string `json:"session_id"` // the transcript's id
	ID        string `json:"turn"`       // unique, an idempotency key together with Fence
	Fence     int64  `json:"fence"`      // rises with every turn of the session

	// Messages has one element, unless several were collected into the turn.
	Messages []Message `json:"messages"`

	// History is the transcript before this turn, oldest first.
	History []session.Entry `json:"history"`

	// Note is a system note for the agent, to go before the text. Mostly empty.
	Note string `json:"note,omitempty"`

	// Redelivered: an earlier turn for this message was cut off.
	Redelivered bool `json:"redelivered,omitempty"`

	// Attempt counts from 1; failures that were retried raise it.
	Attempt int `json:"attempt"`

	// State is what the agent asked to keep with EventState in an earlier turn of the
	// same session id, on whatever worker: the id of its own session, for example.
	// Absent if it did not, and when the transcript is not the one any more that was
	// then: another agent has written to it, a turn was undone or rolled back. What
	// the agent knows is then in History.
	State json.RawMessage `json:"state,omitempty"`

	// Ask asks the user for a permission. Nil: nobody can be asked.
	Ask Ask `json:"-"`

	// Steers are messages that arrive while the turn runs. Nil, unless the agent
	// is Steerable. Never closed, and unbuffered: what is not received stays in
	// the session's line.
	Steers <-chan Steer `json:"-"`
}

// Message is what the user said.
type Message struct {
	ID          string               `json:"id"`
	Text        string               `json:"text"`
	Meta        map[string]string    `json:"meta,omitempty"`
	Attachments []session.Attachment `json:"attachments,omitempty"`
}

// Text is what the agent is to read: the note, if any, then the messages' texts,
// with a blank line between each.
func (t Turn) Text() string {
	var text string
	if t.Note != "" {
		text = t.Note
	}
	for _, m := range t.Messages {
		if text != "" {
			text += "\n\n"
		}
		text += m.Text
	}
	return text
}

// Result is how a turn ended well.
type Result struct {
	// Text is the reply. Empty: the reply is the text that was emitted after the
	// last tool or accepted steer.
	Text string
}

// Retryable marks an error as one after which the same turn may be tried again:
// the agent could not start, or nothing had come out of it.
func Retryable(err error) error {
	if err == nil {
		return nil
	}
	return &retryable{err}
}

// IsRetryable reports whether err was marked with Retryable.
func IsRetryable(err error) bool {
	var r *retryable
	return errors.As(err, &r)
}

type retryable struct{ error }

func (r *retryable) Unwrap() error { return r.error }
