package session

import (
	"encoding/json"
	"time"
)

// Types of the events that a session's stream carries besides those of an agent
// (agent.EventType). docs/events.md specifies them.
const (
	EventTurnStarted  = "turn_started"  // a turn was claimed for Messages
	EventTurnEnded    = "turn_ended"    // Status tells how; for each of Messages it is the end
	EventTurnRetry    = "turn_retry"    // it failed and is tried again in RetryIn
	EventTurnRequeued = "turn_requeued" // its worker gave it back; Reason tells why
	EventQueued       = "queued"        // Messages came while a turn ran; Mode tells what they do
	EventSteered      = "steered"       // the running turn's agent has taken Messages
	EventNotice       = "notice"        // Text is for the user

	// EventPermissionAsked is a question to the user that the agent waits with: may it
	// do Name? Text and Input say more, CallID is the question's short id, by which it
	// is answered.
	EventPermissionAsked = "permission_asked"

	// EventPermissionAnswered is how question CallID ended: Decision.
	EventPermissionAnswered = "permission_answered"
)

// The decisions of a permission_answered.
const (
	DecisionAllowed   = "allowed"
	DecisionDenied    = "denied"
	DecisionCancelled = "cancelled" // nobody answered, and nobody needs to any more
)

// Event is one entry of a session's stream.
type Event struct {
	Type      string   `json:"type"`
	SessionID string   `json:"session_id,omitempty"`
	Turn      string   `json:"turn,omitempty"`
	Fence     int64    `json:"fence,omitempty"`
	Messages  []string `json:"messages,omitempty"` // message ids

	// Of an agent's event.
	Text   string          `json:"text,omitempty"`
	Name   string          `json:"name,omitempty"`
	CallID string          `json:"call_id,omitempty"`
	Input  json.RawMessage `json:"input,omitempty"`
	Output json.RawMessage `json:"output,omitempty"`
	Data   json.RawMessage `json:"data,omitempty"`

	// Of an agent's usage event; of a turn's end: the whole turn's.
	Usage *Usage `json:"usage,omitempty"`

	// Of the answer to a question, see DecisionAllowed.
	Decision string `json:"decision,omitempty"`

	// Of a question: after how long without an answer it counts as denied; 0: it waits
	// as long as its turn may last.
	TimeoutMS int64 `json:"timeout_ms,omitempty"`

	// Of a turn's end, retry or requeue.
	Status     Status `json:"status,omitempty"`
	Reply      string `json:"reply,omitempty"`
	Error      string `json:"error,omitempty"`
	DurationMS int64  `json:"duration_ms,omitempty"`
	Attempt    int    `json:"attempt,omitempty"`
	RetryInMS  int64  `json:"retry_in_ms,omitempty"`
	Reason     string `json:"reason,omitempty"`

	// Of a turn's start: why its session id is new, and why an earlier run of it was
	// cut off.
	Reset  string `json:"reset,omitempty"`
	Resume string `json:"resume,omitempty"`

	// Of a message that was queued.
	Mode     Mode `json:"mode,omitempty"`
	Position int  `json:"position,omitempty"`

	// ID is its place in the stream, from which Client.FollowFrom goes on. It is no part
	// of the JSON. An event without one comes with the next one: of the two, only the
	// last has it.
	ID string `json:"-"`

	// At is when it happened, by Redis' clock, in ms. It is in ID, too.
	At time.Time `json:"-"`
}
