package agent

import (
	"context"
	"encoding/json"

	"turnstile/pkg/session"
)

// Question asks the user whether the agent may do something.
type Question struct {
	CallID string          // of the tool, if it is one
	Name   string          // the tool's name, or a few words for the action
	Text   string          // more about it, for a person; may be empty
	Input  json.RawMessage // the arguments of the tool; may be empty

	// CanRemember: the agent can remember the decision for similar actions.
	CanRemember bool
}

// Ask puts a question to the user and returns the decision, or ctx's cause when ctx ends. Questions
// of one turn are asked one after the other. A turn that waits for a decision stays its owner's
// until its timeout. A question that nobody decides within the worker's AskTimeout is denied.
type Ask func(ctx context.Context, q Question) (session.Decision, error)
