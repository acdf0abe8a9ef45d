package session

import (
	"encoding/json"
	"strconv"
	"time"
)

// Question is an agent's request for the user's permission.
type Question struct {
	Turn   string `json:"-"`              // the ID of its turn
	Number int    `json:"-"`              // rises with every question of the session
	Name   string `json:"name"`           // the requested action
	Text   string `json:"text,omitempty"` // details

	// Approvers are who may decide over HTTP: ApproveSender, ApproveAnyone, and senders, in which *
	// stands for any characters but a slash, such as ops/*. Empty: the gateway's rule decides.
	Approvers []string `json:"approvers,omitempty"`

	// Senders are those of the messages for which the turn began, as in meta.sender, at most 100. One
	// that was steered in later is none.
	Senders []string `json:"senders,omitzero"`

	// Timeout is how long after AskedAt the question counts as denied. 0: it waits as long as its turn.
	Timeout Millis    `json:"timeout_ms,omitempty"`
	AskedAt time.Time `json:"-"` // when it was asked first, by Redis' clock
}

// ID is the question's permanent ID, TURN.NUMBER. After an erase the numbers begin again; the IDs
// of turns do not. In an EventQuestionAsked it is the event's turn and call ID.
func (q Question) ID() string { return q.Turn + "." + strconv.Itoa(q.Number) }

// Question returns the question of an EventQuestionAsked, without its Senders and its time, which only the stored
// one has (Info.Question); ok is false for another event.
func (e Event) Question() (q Question, ok bool) {
	number, err := strconv.Atoi(e.CallID)
	if e.Type != EventQuestionAsked || err != nil {
		return Question{}, false
	}
	return Question{Turn: e.Turn, Number: number, Name: e.Name, Text: e.Text, Approvers: e.Approvers}, true
}

// Decision is a user's decision about a question.
type Decision string

// The decisions.
const (
	Allow     Decision = "allow"
	Always    Decision = "always" // allow this and everything like it without another question
	Deny      Decision = "deny"
	Cancelled Decision = "cancelled" // the turn ended or the agent withdrew the question; only in events
)

// Allowed reports whether d is Allow or Always. Unknown decisions are denials.
func (d Decision) Allowed() bool { return d == Allow || d == Always }

// MarshalJSON returns the word of an event for d (docs/events.md): allowed, denied or cancelled.
func (d Decision) MarshalJSON() ([]byte, error) {
	word := string(d)
	switch {
	case d.Allowed():
		word = "allowed"
	case d == Deny:
		word = "denied"
	}
	return json.Marshal(word)
}

// UnmarshalJSON reads the word of an event, or a decision.
func (d *Decision) UnmarshalJSON(data []byte) error {
	var word string
	if err := json.Unmarshal(data, &word); err != nil {
		return err
	}
	switch *d = Decision(word); word {
	case "allowed":
		*d = Allow
	case "denied":
		*d = Deny
	}
	return nil
}
