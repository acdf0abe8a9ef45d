// Package agent is the interface of an AI agent: run one turn, report events meanwhile, and stop
// when asked. The adapters are its subpackages. A Go program can bring its own.
package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"turnstile/internal/text/frame"
	"turnstile/pkg/session"
)

// Agent runs turns, of all sessions of a worker at once. If it is a Describer or a Warmer, too, the
// worker makes use of that.
type Agent interface {
	// Run runs one turn. It returns after everything that it started has stopped. When ctx ends the
	// agent must stop soon and return context.Cause(ctx). If it returns no error, the turn is done, also in
	// a drain: nothing resumes it. Earlier events are kept.
	//
	// An error is final, because agents have side effects, unless it wraps ErrRetryable or ErrUnavailable.
	Run(ctx context.Context, turn *Turn) (Result, error)
}

// Func is a function that is an Agent. Func(a.Run) has neither the Traits nor the warm agents of a.
type Func func(ctx context.Context, turn *Turn) (Result, error)

// Run calls f.
func (f Func) Run(ctx context.Context, turn *Turn) (Result, error) { return f(ctx, turn) }

// Describer is implemented by agents with Traits. A worker asks once.
type Describer interface{ Traits() Traits }

// Traits are the features of an agent that a worker uses.
type Traits struct {
	// Immediate: the agent starts nothing, keeps no state and needs no history. Its turns are claimed
	// as running, without Turn.History and Turn.State, which saves two round trips.
	Immediate bool

	// Steerable: messages may join its running turns, see Turn.Steers.
	Steerable bool

	// Continues: a turn that was interrupted goes on where its last step ended, see Turn.Kept. Other
	// agents begin the turn again, and its steps have their results.
	Continues bool

	// Instructable: it does what a session.ModelRequest says. Other agents are not given messages with one.
	Instructable bool

	// Stateless: its warm agents remember nothing of the session. They stay in use when another
	// worker has run a turn of the session. Only for a Warmer.
	Stateless bool
}

// Turn is one run of an agent. A worker makes it, and a test makes one by a literal.
type Turn struct {
	Session      string `json:"session"`    // the session key
	TranscriptID string `json:"session_id"` // a new one means that the session's history begins again
	ID           string `json:"turn"`       // unique, an idempotency key together with Fence
	Fence        int64  `json:"fence"`      // rises with every turn of the session

	// Messages has one element, unless several were collected into the turn.
	Messages []session.Message `json:"messages"`

	// History is the transcript before this turn, oldest first.
	History []session.Entry `json:"history"`

	// Kept is what earlier, interrupted runs of this turn have done, up to their last step, for an agent that
	// Continues. It is part of the turn's transcript, and was shown to the user.
	Kept []session.Entry `json:"kept,omitempty"`

	// Steps are the steps that earlier runs of this turn have ended.
	Steps []StepRecord `json:"steps,omitempty"`

	// Note is a system note for the agent, before the text. It is mostly empty.
	Note string `json:"note,omitempty"`

	// Redelivered: an earlier turn for this message was interrupted.
	Redelivered bool `json:"redelivered,omitempty"`

	// Attempt counts from 1. Each retried failure raises it.
	Attempt int `json:"attempt"`

	// Throttled is how often the turn has waited for a provider, see ErrThrottled.
	Throttled int `json:"-"`

	// TraceParent is the traceparent of W3C Trace Context of the first message that has one, valid or
	// "". Agents send it with their own calls: TRACEPARENT in a program's environment, a header in
	// HTTP, _meta in ACP.
	TraceParent string `json:"-"`

	// State is the data that the agent stored with EventState in an earlier turn of the same
	// transcript, on any worker: the ID of the agent's own session, for example. It is absent if
	// the agent stored nothing, or if the transcript has changed since: another agent wrote to it,
	// or a turn was undone or rolled back. Then the agent has only History.
	State json.RawMessage `json:"state,omitempty"`

	// Host is set by the program that runs the agent. An agent calls the methods below.
	Host Host `json:"-"`
}

// Text returns the whole input for a model: the note, if there is one, and the messages' texts, with a
// blank line between each. Where several people speak, each text begins with its sender: see Speakers.
// If these messages bring the second one, a line before them names the sender of the history, for an
// agent that has it from earlier turns. If there is a note, lines of the messages that look like one are quoted with
// "> ". An agent that interprets the user's words reads Messages.
func (t *Turn) Text() string {
	text, before, who := t.Note, "", speakersOf(t.History, t.Messages)
	if past := speakersOf(t.History, nil); who.several && past.known && !past.several {
		before = past.alone()
	}
	for _, m := range t.Messages {
		if text != "" {
			text += "\n\n"
		}
		said := m.Text
		if t.Note != "" { // else the text goes through byte for byte
			said = frame.Notes(said)
		}
		text += before + who.Said(said, m.Meta)
		before = ""
	}
	return text
}

// Result is the result of a turn that succeeded.
type Result struct {
	// Text is the reply. Empty: the reply is the text that was emitted after the last tool or
	// accepted steer, and a turn without any is done with an empty reply. Leave it empty if the agent
	// emits its reply: followers do not see a Text that differs from it.
	Text string

	// Cut says that the reply ends where the model reached a limit of its length. The turn is done, with the code
	// session.CodeLength.
	Cut bool
}

// Retryable marks an error after which the same turn may be tried again: the turn had not produced
// anything. The error wraps ErrRetryable and err.
func Retryable(err error) error {
	if err == nil {
		return nil
	}
	return &marked{err, ErrRetryable}
}

// Unavailable marks an error that is no fault of the message: this worker cannot run the agent now, and nothing of
// the turn was done. The error wraps ErrUnavailable and err.
func Unavailable(err error) error {
	if err == nil {
		return nil
	}
	return &marked{err, ErrUnavailable}
}

// Throttled marks an error of a provider, such as a model's server, that asks for a pause: the turn is left for wait,
// at most an hour at once, and then goes on. Zero: the provider names no time. The error wraps ErrThrottled and err.
func Throttled(err error, wait time.Duration) error {
	if err == nil {
		return nil
	}
	return &throttled{marked{err, ErrThrottled}, wait}
}

// ThrottledFor is the wait of Throttled.
func ThrottledFor(err error) time.Duration {
	var t *throttled
	if !errors.As(err, &t) {
		return 0
	}
	return t.wait
}

type throttled struct {
	marked

	wait time.Duration
}

type marked struct {
	error

	mark error
}

func (m *marked) Unwrap() []error { return []error{m.error, m.mark} }

var (
	// ErrRetryable is wrapped by an error that Retryable or Unavailable has marked.
	ErrRetryable = errors.New("may be tried again")

	// ErrUnavailable is wrapped by an error that Unavailable has marked. It spends no attempt: the turn's messages
	// go back to their place for another worker, and this one leaves the agent alone for a second, after further
	// such errors for up to a minute. If the agent has emitted, asked or ended a step before, the error is only
	// ErrRetryable.
	ErrUnavailable = fmt.Errorf("this worker cannot run it now, and it %w", ErrRetryable)

	// ErrThrottled is wrapped by an error that Throttled has marked. It spends no attempt and no worker: the turn waits,
	// with all that it has done, and the next run has one more in Turn.Throttled. From the second on, a wait is at least
	// a minute. Without a time the worker chooses: a minute, then twice as long each time, up to ten.
	ErrThrottled = fmt.Errorf("the provider asks to wait, and the turn %w", ErrRetryable)

	// ErrParked is the error of a question with a Key, or of a Wait, that takes long. Return it, wrapped or not,
	// when everything that the turn has begun has ended.
	ErrParked = errors.New("the turn is parked until it can go on")

	// ErrLeaseLost says that the worker no longer owned the session.
	//
	// A worker that has lost the session cancels the turn with a cause that wraps ErrLeaseLost. The
	// agent is then killed without grace, because the next owner may start its own. An adapter returns
	// ErrLeaseLost, marked Retryable, when a guardian killed the agent because no renewal came.
	ErrLeaseLost = errors.New("the lease on the session was lost")
)

// ForUser gives an error a sentence for its users. Without it they learn only that the agent
// failed, because an error may contain anything: err itself is for operators. sentence begins in
// lower case and has no secret.
func ForUser(err error, sentence string) error {
	if err == nil {
		return nil
	}
	return &userError{err, sentence}
}

// UserText returns the sentence of ForUser, or "".
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

// Event is one thing that an agent did in a turn.
type Event struct {
	Type   session.EventType `json:"type"` // EventText to EventState; a worker leaves others out
	Text   string            `json:"text,omitempty"`
	Name   string            `json:"name,omitempty"`    // the tool's name
	CallID string            `json:"call_id,omitempty"` // ties tool_end to its tool_start
	Input  json.RawMessage   `json:"input,omitempty"`
	Output json.RawMessage   `json:"output,omitempty"`
	Error  string            `json:"error,omitempty"` // of a tool that failed
	Usage  *session.Usage    `json:"usage,omitempty"`
	Data   json.RawMessage   `json:"data,omitempty"`

	// In tool_start, see session.ToolUse.
	Client   bool `json:"-"`
	Parallel bool `json:"-"`

	// Sent is for the transcript: in tool_start with the tool, in a text event with the text that the agent has emitted
	// since its last tool or steer. Such an event has no text.
	Sent *session.Sent `json:"-"`
}

// Steer is a message that arrived while a turn runs and may join it.
//
// An agent receives from Turn.Steers where it can take a message in, between two tools for example,
// and then calls Accept. It need not receive at all. A message that it has not accepted when Run
// returns goes back into the session's queue and becomes another turn, so none is lost.
type Steer struct {
	Message session.Message
	accept  func()
}

// NewSteer makes a Steer for a program that fills Host.Steers. accept may be nil. It is called at
// most once, from any goroutine of the agent. It must not block for long.
func NewSteer(m session.Message, accept func()) Steer {
	if accept != nil {
		accept = sync.OnceFunc(accept)
	}
	return Steer{m, accept}
}

// Accept reports that the agent has the message. The message then belongs to the turn and shares
// its outcome. Its text becomes an entry of the transcript at this point, after the events so far.
// Accept must be called before Run returns. Calling it again does nothing.
func (s Steer) Accept() {
	if s.accept != nil {
		s.accept()
	}
}
