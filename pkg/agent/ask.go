package agent

import (
	"context"
	"encoding/json"
)

// Question asks the user whether the agent may do something.
type Question struct {
	CallID string          // of the tool, if it is one
	Name   string          // the tool's name, or what is to be done in a few words
	Text   string          // more about it, for a person; may be empty
	Input  json.RawMessage // what the tool is to be called with; may be empty

	// CanRemember: the agent can be told to do the like without asking again.
	CanRemember bool
}

// Answer is what the user said.
type Answer struct {
	Allowed  bool
	Remember bool // and so for the like, as long as the agent lives
}

// Ask puts a question to the user, and returns with the answer, or when ctx ends
// with its cause. Questions of one turn are asked one after the other. A turn that
// waits for an answer goes on being its owner's, until its timeout. A question that
// nobody answers in the worker's AskTimeout counts as denied.
type Ask func(ctx context.Context, q Question) (Answer, error)
