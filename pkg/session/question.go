package session

// Question is an agent's request for the user's permission.
type Question struct {
	Number int    `json:"-"`              // rises with every question of the session
	Name   string `json:"name"`           // what the agent wants to do
	Text   string `json:"text,omitempty"` // details
}

// Decision is the user's decision about a question.
type Decision string

// The decisions.
const (
	Allow  Decision = "allow"
	Always Decision = "always" // allow this and everything like it without another question
	Deny   Decision = "deny"
)
