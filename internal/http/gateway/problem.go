package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"syscall"
	"time"

	"turnstile/internal/redis/redisconn"
	"turnstile/pkg/session"
)

// Problem is the body of every response that reports a failure (RFC 9457). A route that returns it
// as an error responds with it.
type Problem struct { //nolint:errname // it is first of all the body of a response
	Title     string   `json:"title"`
	Status    int      `json:"status"`
	Code      Code     `json:"code"`
	Detail    string   `json:"detail,omitempty"`
	RequestID string   `json:"request_id"`
	Fields    []string `json:"fields,omitempty"` // with UnknownFields: the fields

	Owed   int `json:"owed,omitempty"`   // with Undelivered: unfinished messages with a destination
	Stored int `json:"stored,omitempty"` // and undelivered outcomes

	retryAfter time.Duration
	cause      error // for the log
}

func (p *Problem) Error() string { return fmt.Sprintf("%s: %s", p.Code, p.Detail) }
func (p *Problem) Unwrap() error { return p.cause }

// Fail returns a problem. The detail is for the person who reads the response.
func Fail(code Code, format string, args ...any) *Problem {
	m := meanings[code]
	return &Problem{Title: m.title, Status: m.status, Code: code, Detail: fmt.Sprintf(format, args...), retryAfter: pauses[code]}
}

// pauses are the Retry-After of the codes that have one.
var pauses = map[Code]time.Duration{
	FollowupsFull: 5 * time.Second, LineFull: 5 * time.Second, MessagesFull: 5 * time.Second, OutboxFull: 5 * time.Second,
	RateLimited: time.Second, TooManyStreams: 5 * time.Second,
	Overloaded: time.Second, RedisUnavailable: 2 * time.Second, RedisRefused: 10 * time.Second, MessageLost: time.Second, Draining: time.Second, NoWorker: 2 * time.Second,
}

// conditions are the errors that a client's call may return, and their codes. The first match
// counts.
var conditions = []struct {
	err  error
	code Code
}{
	{session.ErrTooLarge, MessageTooLarge},
	{session.ErrInvalid, InvalidRequest},
	{session.ErrBusy, Busy},
	{session.ErrRunning, Running},
	{session.ErrConflict, IdempotencyConflict},
	{session.ErrOtherAgent, OtherAgent},
	{session.ErrNoTurn, NoTurn},
	{session.ErrLastFailed, LastFailed},
	{session.ErrNoQuestion, NoQuestion},
	{session.ErrOtherQuestion, OtherQuestion},
	{session.ErrJustAsked, OtherQuestion},
	{session.ErrDecided, QuestionDecided},
	{session.ErrNoWait, NoWait},
	{session.ErrGiven, ValueGiven},
	{session.ErrWrongSecret, Forbidden},
	{session.ErrNotFound, UnknownMessage},
	{session.ErrExpired, ResultExpired},
	{session.ErrFollowupsFull, FollowupsFull},
	{session.ErrQueueFull, LineFull},
	{session.ErrAllQueuesFull, MessagesFull},
	{session.ErrOutboxFull, OutboxFull},
}

// problemOf converts an error of a route to a problem.
func problemOf(err error) *Problem {
	var p *Problem
	if errors.As(err, &p) {
		return p
	}
	for _, c := range conditions {
		if errors.Is(err, c.err) {
			return because(err, Fail(c.code, "%s", err))
		}
	}
	switch {
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return because(err, Fail(Overloaded, "The gateway has no file descriptor left. %s", whatIsStored(err)))
	case redisconn.MayPass(err), errors.Is(err, redisconn.ErrUnsure), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return because(err, Fail(RedisUnavailable, "Try again. %s", whatIsStored(err)))
	case redisconn.Refused(err), errors.Is(err, session.ErrBroken):
		return because(err, Fail(RedisRefused, "The gateway's log has the reason. %s", whatIsStored(err)))
	}
	return because(err, Fail(InternalError, "The gateway's log has the reason under this request_id."))
}

// ProblemOf converts an error of a client's call to a problem, for handlers that respond with
// something else.
func ProblemOf(err error) *Problem { return problemOf(err) }

func because(err error, p *Problem) *Problem {
	p.cause = err
	return p
}

// whatIsStored says whether a failed request may have changed something.
func whatIsStored(err error) string {
	if errors.Is(err, session.ErrUnchanged) {
		return "Nothing was changed."
	}
	return "The request may have been carried out."
}

// write sends the problem.
func (p *Problem) write(w http.ResponseWriter, requestID string) {
	p.RequestID = requestID
	body, err := json.Marshal(p)
	if err != nil {
		return // texts and numbers can always be encoded
	}
	w.Header().Set("Content-Type", "application/problem+json")
	p.header(w.Header())
	send(w, p.Status, body)
}

// header sets the headers of a problem.
func (p *Problem) header(h http.Header) {
	h.Set("Cache-Control", "no-store")
	if p.retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int((p.retryAfter+time.Second-1)/time.Second)))
	}
}

// Respond sends a value as JSON.
func Respond(w http.ResponseWriter, status int, value any) error {
	body, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encode the response: %w", err)
	}
	if err := sending(w, len(body)); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	send(w, status, body)
	return nil
}

// send writes a response within writeTimeout. If the client does not read, its connection is
// closed.
func send(w http.ResponseWriter, status int, body []byte) {
	allowWrite(w)
	w.WriteHeader(status)
	_, _ = w.Write(body) // it fails only if the client went away
	_, _ = w.Write([]byte("\n"))
}
