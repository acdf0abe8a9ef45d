package protocol

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"turnstile/pkg/session"
)

// Decided is a decision and the number of the question it is about; the zero Reply is
// none.
type Decided struct {
	Question int
	Decision session.Decision
}

// Ask stores the question of the turn's agent, for Answer to find, and returns its
// number. One at a time: it replaces the last one. q's own number is not read.
func (c *Claim) Ask(ctx context.Context, q session.Question) (number int, err error) {
	data, err := marshal(q)
	if err != nil {
		return 0, fmt.Errorf("encode question: %w", err)
	}
	c.mu.Lock()
	c.questions++
	c.mu.Unlock()
	r, err := c.ask(ctx, data)
	return int(r.int("number")), err
}

// Withdraw says that the agent does not wait any more for the answer to the turn's
// last question: nobody can answer it behind this. The Decision is what somebody said
// before, and was told that it counts; "": nobody did.
func (c *Claim) Withdraw(ctx context.Context) (session.Decision, error) {
	r, err := c.ask(ctx, "")
	return session.Decision(r.text("decision")), err
}

func (c *Claim) ask(ctx context.Context, question string) (returned, error) {
	c.mu.Lock()
	nth := c.questions
	c.mu.Unlock()
	return c.move(ctx, askMove, true, "nth", nth, "question", question)
}

func readQuestion(text string) (q session.Question) {
	_ = json.Unmarshal([]byte(text), &q) // the agent's own words are a courtesy
	return q
}

// OpenQuestion is the question that a turn's agent asks now, by its run record's
// fields; nil: none.
func OpenQuestion(fence, question, answered string) *session.Question {
	of, rest, _ := strings.Cut(question, " ")
	number, text, _ := strings.Cut(rest, " ")
	if of == "" || of != fence || strings.HasPrefix(answered, of+" "+number+" ") {
		return nil
	}
	q := readQuestion(text)
	q.Number, _ = strconv.Atoi(number)
	return &q
}
