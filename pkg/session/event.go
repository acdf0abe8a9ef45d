package session

import (
	"cmp"
	"encoding/json"
	"time"
)

// EventType is the type of an event. docs/events.md specifies the fields of each.
type EventType string

// The events of an agent. docs/agents/jsonl.md has their JSON form, which a jsonl agent writes to stdout.
const (
	EventText      EventType = "text"       // a piece of the reply: Text
	EventThought   EventType = "thought"    // a piece of its thinking: Text; shown, not kept
	EventToolStart EventType = "tool_start" // Name, CallID, Input, Client
	EventToolEnd   EventType = "tool_end"   // CallID, Output or Error

	// EventTitle proposes a title for the session: Text, one line. A title that a user set stays.
	EventTitle EventType = "title"

	// EventUsage reports the usage since the previous EventUsage: Usage. Their sum is stored with the
	// turn's last entry.
	EventUsage EventType = "usage"

	// EventNotice tells the user something that is not part of the reply: Text; shown, not kept.
	// Turnstile has notices, too: one about a step that may have happened has its CallID.
	EventNotice EventType = "notice"

	// EventRaw is an event of the agent's own protocol that fits no other type: Name is its type
	// there, Data all of it. Programs see it; it is not kept.
	EventRaw EventType = "raw"

	// EventState stores Data for the session's next turns, see agent.Turn.State. It replaces the
	// stored state and is not shown.
	EventState EventType = "state"
)

// ReasonParked is the Reason of an EventTurnRequeued: the turn waits without a worker, for a decision, or for a
// program's value or a time under the key Name. Then it goes on.
const ReasonParked = "parked"

// ReasonThrottled is the Reason of an EventTurnRequeued: a provider that the agent asks, such as a model's server, wants
// it to wait, and the turn goes on after RetryIn.
const ReasonThrottled = "throttled"

// ReasonUnavailable is the Reason of an EventTurnRequeued: the worker could not start the agent. Another worker, or
// this one later, goes on with the turn, as if this run had not been.
const ReasonUnavailable = "unavailable"

// The events of Turnstile.
const (
	EventTurnStarted  EventType = "turn_started"  // a turn was claimed for Messages
	EventTurnEnded    EventType = "turn_ended"    // the turn and its Messages ended with Status
	EventTurnRetry    EventType = "turn_retry"    // an attempt failed; the turn tries again after RetryIn
	EventTurnRequeued EventType = "turn_requeued" // the worker has left the turn for Reason, and another goes on with it
	EventQueued       EventType = "queued"        // Messages arrived while a turn was running; Mode is theirs
	EventSteered      EventType = "steered"       // the running turn's agent took Messages in

	// EventQuestionAsked: the agent asks whether it may do Name, and waits for the user's decision.
	// Text and Input have details. CallID is the question's number.
	EventQuestionAsked EventType = "permission_asked"

	// EventQuestionAnswered: question CallID ended with Decision.
	EventQuestionAnswered EventType = "permission_answered"
)

// The events of a reader. They are not stored and have no ID, except EventPlace.
const (
	// EventGap: events before the next one were removed, because the stream is capped. TranscriptID
	// and Entries are a place in the transcript: the entries up to there include the turns of the
	// removed events. Later events may belong to one of these turns; compare the IDs.
	EventGap EventType = "gap"

	// EventReset: the stream is another one than the reader has read before. The session was erased
	// or forgotten, or Redis lost its last writes. The stream follows from its beginning.
	EventReset EventType = "reset"

	// EventPlace is the first event of a gateway's stream that a client opened with a time. Its ID
	// is the place where the stream begins. A stream of all sessions has more of them.
	EventPlace EventType = "place"
)

// Event is one event of a session. Which fields it has depends on its Type.
type Event struct {
	Type         EventType `json:"type"`
	TranscriptID string    `json:"session_id,omitempty"`
	Turn         string    `json:"turn,omitempty"`
	Fence        int64     `json:"fence,omitempty"`
	Messages     []string  `json:"messages,omitempty"` // message IDs

	// In an agent's event.
	Text   string          `json:"text,omitempty"`
	Name   string          `json:"name,omitempty"`
	CallID string          `json:"call_id,omitempty"`
	Input  json.RawMessage `json:"input,omitempty"`
	Output json.RawMessage `json:"output,omitempty"`
	Data   json.RawMessage `json:"data,omitempty"`

	// Client, in a tool's start: the tool is a function of the message's program, which carries out the call
	// after the turn. There is no tool's end.
	Client bool `json:"client,omitempty"`

	// In an agent's usage event; in a turn's end, the sum of them.
	Usage *Usage `json:"usage,omitempty"`

	// In an EventQuestionAnswered. Its JSON does not distinguish Always from Allow.
	Decision Decision `json:"decision,omitempty"`

	// By is who has decided, in the form of a message's sender: a gateway's token, or a user below
	// it. "" is a timeout, or an unnamed user.
	By string `json:"by,omitempty"`

	// In a question: who may decide it, see Question.Approvers.
	Approvers []string `json:"approvers,omitempty"`

	// In a question: the time after which it counts as denied. 0: it waits until its turn ends.
	Timeout Millis `json:"timeout_ms,omitempty"`

	// In a turn's end, an EventTurnRetry or an EventTurnRequeued. Error, Code and Detail are those of an Outcome.
	Status   Status `json:"status,omitempty"`
	Reply    string `json:"reply,omitempty"`
	Error    string `json:"error,omitempty"`
	Code     string `json:"code,omitempty"`
	Detail   string `json:"detail,omitempty"`
	Duration Millis `json:"duration_ms,omitempty"`
	Attempt  int    `json:"attempt,omitempty"`
	RetryIn  Millis `json:"retry_in_ms,omitempty"`
	Reason   string `json:"reason,omitempty"`

	// In a turn's start. Reset says why its transcript is new, Resume why an earlier run of its
	// messages was interrupted.
	Reset  string `json:"reset,omitempty"`
	Resume string `json:"resume,omitempty"`

	// In a turn's start: the name of the worker that runs it, for operators.
	Worker string `json:"worker,omitempty"`

	// Continues, in a turn's start and end and an EventSteered, is the ID of the turn's first run, from which
	// it goes on; "" if it began anew. Keeps, in its start, and where a worker has left it, is how many items of the output
	// since then stand, and in an EventSteered how many there are: a tool or adjacent text is one. A reader
	// drops the items behind them, and all if the start does not continue the output that it shows.
	Continues string `json:"continues,omitempty"`
	Keeps     int    `json:"keeps,omitempty"`

	// In an EventQueued.
	Mode     Mode `json:"mode,omitempty"`
	Position int  `json:"position,omitempty"`

	// In an EventGap: how many entries the transcript has.
	Entries int64 `json:"entries,omitempty"`

	// ID is the event's place in the stream, ENTRY.INDEX: several events may be stored in one
	// entry. turnstile.EventsAfter continues after it. It is empty for an event that is not stored, such
	// as the last piece of a reply: do not save that, because EventsAfter("") is the beginning. It is not
	// in the JSON.
	ID string `json:"-"`

	// At is when the event was stored, by Redis' clock, in whole ms. It is not in the JSON.
	At time.Time `json:"-"`
}

// Why is the reason for operators: Detail if there is one, else Error.
func (e Event) Why() string { return cmp.Or(e.Detail, e.Error) }
