package protocol

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

// Reply is a decision and the number of the question it is about; the zero Reply is
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
	ErrJustAsked    = errors.New("the question was asked just now")
)

// justAsked is how long a bare answer may still be meant for the question before: the
// user has to see the new one, and the answer is under way for a while.
const justAsked = 3 * time.Second

// Ask stores the question of the turn's agent, for Answer to find, and returns its
// number. One at a time: it replaces the last one. q's own number is not read.
func (h *Hold) Ask(ctx context.Context, q Question) (number int, err error) {
	data, err := marshal(q)
	if err != nil {
		return 0, fmt.Errorf("encode question: %w", err)
	}
	h.mu.Lock()
	h.asked++
	h.mu.Unlock()
	reply, err := h.ask(ctx, data)
	return int(reply.int(2)), err
}

// Withdraw says that the agent does not wait any more for the answer to the turn's
// last question: nobody can answer it behind this. The Decision is what somebody said
// before, and was told that it counts; "": nobody did.
func (h *Hold) Withdraw(ctx context.Context) (Decision, error) {
	reply, err := h.ask(ctx, "")
	return Decision(reply.str(1)), err
}

func (h *Hold) ask(ctx context.Context, question string) (answer, error) {
	h.mu.Lock()
	nth := h.asked
	h.mu.Unlock()
	return h.move(ctx, "ask", askScript(), keysToEvents, true, h.consumer.cfg.SentinelTTL.Milliseconds(), nth, question)
}

// Answer answers what the running turn's agent asks. number is the question's, as
// its event tells; 0 means the one that the user sees. ErrNothingAsked, ErrOtherAsked
// (with the question that is asked), ErrAnswered, and for 0 ErrJustAsked (with the
// question, which came so lately that the user may have answered the one before it):
// nothing was changed; nor was it where d is no decision, which wraps
// session.ErrInvalid.
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
	reply, err := run(ctx, c.rdb, answerScript(), keys(sessionKey, "", time.Now())[:keysToEvents],
		rediskey.For(sessionKey).TaskPrefix(), which, string(d), rand.Text(), justAsked.Milliseconds())
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
	case "new":
		return q, ErrJustAsked
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
	case errors.Is(err, ErrJustAsked):
		return fmt.Sprintf("Nothing was answered: question %d has just come, %s. /approve %[1]d or /deny %[1]d", q.Number, q.Name), nil
	case err != nil:
		return "", err
	case d == Deny:
		return fmt.Sprintf("Denied question %d: %s.", q.Number, q.Name), nil
	}
	return fmt.Sprintf("Approved question %d: %s.", q.Number, q.Name), nil
}
