package sessionqueue

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"turnstile/internal/rediskey"
	"turnstile/pkg/session"
)

// Question is what a turn's agent asks the user: may it do this?
type Question struct {
	Number int    `json:"-"`              // within the turn, from 1
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

// Reply is a decision and which question of the turn it is about; the zero Reply is
// none.
type Reply struct {
	Question int
	Decision Decision
}

// What Answer may find.
var (
	ErrNothingAsked = errors.New("nothing is asked")
	ErrOtherAsked   = errors.New("another question is asked")
	ErrAnswered     = errors.New("it was answered already")
)

// Ask stores the question of the turn's agent, for Answer to find. One at a time:
// it replaces the last one.
func (h *Hold) Ask(ctx context.Context, q Question) error {
	data, err := marshal(q)
	if err != nil {
		return fmt.Errorf("encode question: %w", err)
	}
	_, err = h.move(ctx, "ask", askScript, keysToEvents, true, h.consumer.cfg.SentinelTTL.Milliseconds(), q.Number, data)
	return err
}

// Withdraw says that the agent does not wait for the answer to a question any more,
// by its number: nobody can answer it behind this. The Decision is what somebody said
// before, and was told that it counts; "": nobody did.
func (h *Hold) Withdraw(ctx context.Context, number int) (Decision, error) {
	reply, err := h.move(ctx, "ask", askScript, keysToEvents, true, h.consumer.cfg.SentinelTTL.Milliseconds(), number, "")
	return Decision(reply.str(1)), err
}

// Answer answers what the running turn's agent asks. number is the question's, as
// its event tells; 0 means whichever is asked. ErrNothingAsked, ErrOtherAsked (with
// the question that is asked), ErrAnswered: nothing was changed; nor was it where d is
// no decision, which wraps session.ErrInvalid.
func (c *Client) Answer(ctx context.Context, sessionKey string, number int, d Decision) (Question, error) {
	if err := session.ValidateKey(sessionKey); err != nil {
		return Question{}, err
	}
	if d != Allow && d != Always && d != Deny {
		return Question{}, fmt.Errorf("%w decision %q: it is %s, %s or %s", session.ErrInvalid, d, Allow, Always, Deny)
	}
	which := ""
	if number != 0 {
		which = strconv.Itoa(number)
	}
	reply, err := run(ctx, c.rdb, answerScript, keys(sessionKey, "", time.Now())[:keysToEvents],
		rediskey.For(sessionKey).TaskPrefix(), which, string(d), rand.Text())
	if err != nil {
		return Question{}, fmt.Errorf("answer %s: %w", sessionKey, unchanged(err))
	}
	q := readQuestion(reply.str(2))
	q.Number = int(reply.int(1))
	switch reply.str(0) {
	case "none":
		return q, ErrNothingAsked
	case "other":
		return q, ErrOtherAsked
	case "answered":
		return q, ErrAnswered
	}
	return q, nil
}

func readQuestion(text string) (q Question) {
	_ = json.Unmarshal([]byte(text), &q) // the agent's own words are a courtesy
	return q
}

// openQuestion is the question that a turn's agent asks now, by its run record's
// fields; nil: none.
func openQuestion(fence, question, answered string) *Question {
	of, rest, _ := strings.Cut(question, " ")
	number, text, _ := strings.Cut(rest, " ")
	if of == "" || of != fence || strings.HasPrefix(answered, of+" "+number+" ") {
		return nil
	}
	q := readQuestion(text)
	q.Number, _ = strconv.Atoi(number)
	return &q
}

// approve and deny are commands: [NUMBER], and for approve [always].
func (c *Client) approve(ctx context.Context, sessionKey, args string) (string, error) {
	d, words := Allow, strings.Fields(args)
	if n := len(words); n > 0 && words[n-1] == "always" {
		d, words = Always, words[:n-1]
	}
	return c.decide(ctx, sessionKey, "/approve [NUMBER] [always]", words, d)
}

func (c *Client) deny(ctx context.Context, sessionKey, args string) (string, error) {
	return c.decide(ctx, sessionKey, "/deny [NUMBER]", strings.Fields(args), Deny)
}

func (c *Client) decide(ctx context.Context, sessionKey, usage string, words []string, d Decision) (string, error) {
	number := 0
	if len(words) > 0 {
		number, _ = strconv.Atoi(words[0])
		if number < 1 || len(words) > 1 {
			return "", argsError("Write it as " + usage + ". Nothing was answered.")
		}
	}
	q, err := c.Answer(ctx, sessionKey, number, d)
	switch {
	case errors.Is(err, ErrNothingAsked):
		return "Nothing is asked.", nil
	case errors.Is(err, ErrAnswered):
		return "That was answered already.", nil
	case errors.Is(err, ErrOtherAsked):
		return fmt.Sprintf("Question %d is not asked any more; number %d is: %s.", number, q.Number, q.Name), nil
	case err != nil:
		return "", err
	case d == Deny:
		return "Denied: " + q.Name + ".", nil
	}
	return "Approved: " + q.Name + ".", nil
}
