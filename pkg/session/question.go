package session

// Question is what a turn's agent asks the user: may it do this?
type Question struct {
	Number int    `json:"-"`              // rises over the session's life
	Name   string `json:"name"`           // what is to be done
	Text   string `json:"text,omitempty"` // more about it
}

// Decision is what the user says to a question.
type Decision string

// The decisions.
const (
	Allow  Decision = "allow"
	Always Decision = "always" // allow it, and the like without asking again
	Deny   Decision = "deny"
)
