package session

import "strconv"

// Question is an agent's request for the user's permission.
type Question struct {
	Turn   string `json:"-"`              // the id of its turn
	Number int    `json:"-"`              // rises with every question of the session
	Name   string `json:"name"`           // what the agent wants to do
	Text   string `json:"text,omitempty"` // details
}

// ID names the question for good, TURN.NUMBER: numbers of an erased session begin anew, ids of turns
// do not. Of an EventPermissionAsked it is the event's turn and call id.
func (q Question) ID() string { return q.Turn + "." + strconv.Itoa(q.Number) }

// Decision is the user's decision about a question.
type Decision string

// The decisions.
const (
	Allow  Decision = "allow"
	Always Decision = "always" // allow this and everything like it without another question
	Deny   Decision = "deny"
)
