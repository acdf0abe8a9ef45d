// Package agent is the interface of an AI agent: run one turn, report what happens meanwhile, and
// stop when asked. The adapters are its subpackages. A Go program can bring its own.
package agent

import (
	"context"
	"encoding/json"
	"errors"

	"turnstile/pkg/session"
)

// Agent runs turns. One Agent serves all sessions of a worker, concurrently.
type Agent interface {
	// Run runs one turn and returns when it has ended for good: nothing that it started may still
	// be running. When ctx is cancelled the agent must stop soon and return; context.Cause is the
	// reason. What it emitted before is kept.
	//
	// emit may be called from several goroutines until Run returns. It does not block for long and
	// does not retain the event.
	//
	// An error is final, because agents have side effects, unless Retryable marks it.
	Run(ctx context.Context, turn Turn, emit func(Event)) (Result, error)
}

// Immediate is implemented by agents that start nothing and need no history. Their turns are
// claimed as running, without Turn.History and Turn.State, which saves two round trips. An agent
// that keeps state must not be Immediate.
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

	// Note is a system note for the agent that goes before the text. It is mostly empty.
	Note string `json:"note,omitempty"`

	// Redelivered: an earlier turn for this message was interrupted.
	Redelivered bool `json:"redelivered,omitempty"`

	// Attempt counts from 1. Each retried failure raises it.
	Attempt int `json:"attempt"`

	// TraceParent is the traceparent of W3C Trace Context of the first message that has one, valid or
	// "". Agents send it with what they call: TRACEPARENT in a program's environment, a header in
	// HTTP, _meta in ACP.
	TraceParent string `json:"-"`

	// State is what the agent stored with EventState in an earlier turn of the same session id, on
	// any worker: the id of its own session, for example. It is absent if the agent stored nothing,
	// or if the transcript has changed since: another agent has written to it, or a turn was undone
	// or rolled back. The agent then learns from History what was said.
	State json.RawMessage `json:"state,omitempty"`

	// Ask asks the user for a permission. It is nil if nobody can be asked.
	Ask Ask `json:"-"`

	// Steers are messages that arrive while the turn runs. It is nil unless the agent is Steerable.
	// It is never closed, and it is unbuffered: a message that the agent does not receive stays in
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

// Text is what the agent reads: the note, if there is one, then the messages' texts, with a blank
// line between each.
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

// Result is the result of a turn that succeeded.
type Result struct {
	// Text is the reply. Empty: the reply is the text that was emitted after the last tool or
	// accepted steer.
	Text string
}

// Retryable marks an error after which the same turn may be tried again: the agent could not start,
// or the turn had not produced anything.
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

// ForUser gives an error a sentence for its users. Without it they learn only that the agent failed,
// because an error may have anything in it: err itself is for operators. sentence begins in lower case
// and has no secret.
func ForUser(err error, sentence string) error {
	if err == nil {
		return nil
	}
	return &userError{err, sentence}
}

// UserText returns what ForUser has marked err with, or "".
func UserText(err error) string {
	var u *userError
	if !errors.As(err, &u) {
		return ""
	}
	return u.sentence
}

type userError struct {
	error

	sentence string
}

func (u *userError) Unwrap() error { return u.error }
