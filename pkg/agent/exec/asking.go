package exec

import (
	"context"
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

// asking puts a command's questions to the user, and waits for it. It writes the decisions and values to its
// stdin. What is open when the turn ends gets none.
type asking struct {
	turn   *agent.Turn
	ctx    context.Context
	w      io.Writer
	steps  *steps
	onEnd  func(last func()) // ends the run, after the last line to the command
	open   sync.WaitGroup
	count  atomic.Int32  // of the open questions and waits
	before chan struct{} // closed when the last one is over; nil: there was none

	mu  sync.Mutex
	err error // has ended the run
}

// put puts a question to the user. Its error says why the line is not a question.
func (a *asking) put(l line) error {
	if l.ID == "" || l.Name == "" {
		return errors.New("an ask needs id and name")
	}
	q := agent.Question{Key: l.Key, CallID: l.CallID, Name: l.Name, Text: l.Text, Input: l.Input, CanRemember: true}
	return a.another(func() {
		decision, err := a.turn.Ask(a.ctx, q)
		a.end(decisionLine{"answer", l.ID, decision.Allowed(), decision == session.Always}, err)
	})
}

// another asks or waits after what is open. The order is that of the lines: a later run must have the same.
func (a *asking) another(ask func()) error {
	if a.count.Add(1) > maxQuestions {
		return fmt.Errorf("more than %d questions are open", maxQuestions)
	}
	before, over := a.before, make(chan struct{})
	a.before = over
	a.open.Go(func() {
		defer a.count.Add(-1)
		defer close(over)
		if before != nil {
			<-before
		}
		ask()
	})
	return nil
}
