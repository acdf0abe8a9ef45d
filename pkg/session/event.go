package session

import (
	"cmp"
	"encoding/json"
	"time"
)

// The types of a session's events, in addition to those of an agent (agent.EventType).
// docs/events.md specifies them.
const (
	EventTurnStarted  = "turn_started"  // a turn was claimed for Messages
	EventTurnEnded    = "turn_ended"    // the turn and its Messages ended with Status
	EventTurnRetry    = "turn_retry"    // the turn failed and runs again in RetryInMS
	EventTurnRequeued = "turn_requeued" // the worker requeued the turn's messages for Reason
	EventQueued       = "queued"        // Messages arrived while a turn was running; Mode says what they do
	EventSteered      = "steered"       // the running turn's agent took Messages in
	EventNotice       = "notice"        // Text is for the user

	// EventPermissionAsked: the agent asks whether it may do Name, and waits for the user's
	// decision. Text and Input have details. CallID is the question's number.
	EventPermissionAsked = "permission_asked"

	// EventPermissionAnswered: question CallID ended with Decision.
	EventPermissionAnswered = "permission_answered"
)

// The types of what Client.Events reports besides a stream's events. They have no ID.
const (
	// EventGap: events before the next one were removed, because the stream is capped. SessionID
	// and Entries are a place in the transcript: entries up to there have what the turns of these
	// events have left. Later events may belong to a turn that is among these entries already; its
	// id says so.
	EventGap = "gap"

	// EventReset: the stream is not the one that the reader has read before. The session was erased
	// or forgotten, or Redis has lost what it wrote last. What follows is the stream from its
	// beginning.
	EventReset = "reset"
)

// EventPlace is the first event of a gateway's stream that a client has opened by a time. It is not
// stored, and its ID is the place at which the stream begins. A stream of all sessions has more of them.
const EventPlace = "place"

// The decisions of an EventPermissionAnswered.
const (
	DecisionAllowed   = "allowed"
	DecisionDenied    = "denied"
	DecisionCancelled = "cancelled" // the turn ended or the agent withdrew the question
)

// Event is one event of a session. Which fields it has depends on its Type.
type Event struct {
	Type      string   `json:"type"`
	SessionID string   `json:"session_id,omitempty"`
	Turn      string   `json:"turn,omitempty"`
	Fence     int64    `json:"fence,omitempty"`
	Messages  []string `json:"messages,omitempty"` // message ids

	// In an agent's event.
	Text   string          `json:"text,omitempty"`
	Name   string          `json:"name,omitempty"`
	CallID string          `json:"call_id,omitempty"`
	Input  json.RawMessage `json:"input,omitempty"`
	Output json.RawMessage `json:"output,omitempty"`
	Data   json.RawMessage `json:"data,omitempty"`

	// In an agent's usage event; in a turn's end, the sum of them.
	Usage *Usage `json:"usage,omitempty"`

	// In an EventPermissionAnswered: DecisionAllowed, DecisionDenied or DecisionCancelled.
	Decision string `json:"decision,omitempty"`

	// By is who has decided, as a message's sender is named: a gateway's token, or a user below it. ""
	// is a timeout, or somebody whom the caller did not name.
	By string `json:"by,omitempty"`

	// In a question: the time in ms after which it counts as denied. 0: it waits until its turn
	// ends.
	TimeoutMS int64 `json:"timeout_ms,omitempty"`

	// In a turn's end, retry or requeue. Error, Code and Detail are those of an Outcome.
	Status     Status `json:"status,omitempty"`
	Reply      string `json:"reply,omitempty"`
	Error      string `json:"error,omitempty"`
	Code       string `json:"code,omitempty"`
	Detail     string `json:"detail,omitempty"`
	DurationMS int64  `json:"duration_ms,omitempty"`
	Attempt    int    `json:"attempt,omitempty"`
	RetryInMS  int64  `json:"retry_in_ms,omitempty"`
	Reason     string `json:"reason,omitempty"`

	// In a turn's start. Reset says why its session id is new, Resume why an earlier run of its
	// messages was interrupted.
	Reset  string `json:"reset,omitempty"`
	Resume string `json:"resume,omitempty"`

	// In an EventQueued.
	Mode     Mode `json:"mode,omitempty"`
	Position int  `json:"position,omitempty"`

	// In an EventGap: how many entries the transcript has.
	Entries int64 `json:"entries,omitempty"`

	// ID is the event's place in the stream, ENTRY.INDEX: several events may be stored in one entry.
	// turnstile.Client's FollowFrom and Events continue behind it. It is not in the JSON.
	ID string `json:"-"`

	// At is when the event was stored, by Redis' clock, in whole ms. It is not in the JSON.
	At time.Time `json:"-"`
}

// Why is the reason for operators: Detail if there is one, else Error.
func (e Event) Why() string { return cmp.Or(e.Detail, e.Error) }
