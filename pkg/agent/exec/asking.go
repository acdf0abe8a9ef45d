package exec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

// decisionLine is a line of a command's stdin: the user's decision on one of its questions.
type decisionLine struct {
	Type     string `json:"type"` // answer
	ID       string `json:"id"`
	Allowed  bool   `json:"allowed"`
	Remember bool   `json:"remember"`
}

// maxQuestions is how many questions of a command may be open at a time.
const maxQuestions = 64

// asking puts a command's questions to the user, and writes the decisions to its stdin. A question
// that is open when the turn ends gets none.
type asking struct {
	turn  *agent.Turn
	ctx   context.Context
	w     io.Writer
	open  sync.WaitGroup
	count atomic.Int32 // of the open questions
}

// put puts a question to the user. Its error says why the line is not a question.
func (a *asking) put(l line) error {
	if l.ID == "" || l.Name == "" {
		return errors.New("an ask needs id and name")
	}
	if a.count.Add(1) > maxQuestions {
		return fmt.Errorf("more than %d questions are open", maxQuestions)
	}
	q := agent.Question{CallID: l.CallID, Name: l.Name, Text: l.Text, Input: l.Input, CanRemember: true}
	a.open.Go(func() {
		defer a.count.Add(-1)
		decision, err := a.turn.Ask(a.ctx, q)
		if err != nil {
			return
		}
		data, err := json.Marshal(decisionLine{"answer", l.ID, decision.Allowed(), decision == session.Always})
		if err == nil {
			_, _ = a.w.Write(append(data, '\n')) // a command that has closed its stdin does not need it
		}
	})
	return nil
}
