package openai

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"turnstile"
	"turnstile/internal/gateway"
)

// A stream that ends early says so in an event, which makes every SDK fail.

// errRestarted is the cause when a stream ends because its turn is run again.
var errRestarted = errors.New("the turn is run again")

// restarted is the problem of a stream with voided text. advice says how to get the new text.
func restarted(advice string) problem {
	return problem{Message: "The turn is run again: the text so far does not count. " + advice, Type: invalidRequest, Code: "turn_restarted"}
}

// errLost is the cause when a stream ends because events after the client's last one were trimmed.
var errLost = errors.New("events were trimmed")

// lost is the problem of such a stream. A client would join its text to the text after the gap.
var lost = problem{
	Message: "Events behind starting_after are not stored any more. Get the response when it has ended: it has all of its output.",
	Type:    invalidRequest, Code: "events_lost",
}

// interrupted is the problem of a stream that the gateway ended or could not read. Its message is stored,
// and would run twice if the request were repeated, so no SDK repeats a request after this type.
func interrupted(ctx context.Context, err error) problem {
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	p := problemOf(gateway.ProblemOf(gateway.Interrupted(err)))
	p.Type = invalidRequest
	return p
}

// unrepeated is the problem of a stream that was not opened although its message is stored. No SDK repeats a
// request after its type. A client with an Idempotency-Key may.
func unrepeated(r *gateway.Request, err error) error {
	if err == nil || r.Header.Get("Idempotency-Key") != "" {
		return err
	}
	p := *gateway.ProblemOf(err)
	if p.Status != http.StatusTooManyRequests && p.Status < http.StatusInternalServerError {
		return err
	}
	p.Status, p.Detail = http.StatusBadRequest, "The message is stored and will run. Repeating the request may send it again. "+p.Detail
	return &p
}

// turns are fencing tokens of a session's turns. They must be read before the message, since later they may
// be those of a later turn.
type turns struct {
	latest int64
	first  int64 // of the runs that the latest turn goes on from, or the next one will; 0: none
}

// turns reads a session's.
func (a *API) turns(ctx context.Context, sessionKey string) (t turns, err error) {
	info, err := a.client.Session(sessionKey).Info(ctx)
	if err == nil {
		t.latest = info.Fence
		t.first, err = a.kept.FirstRun(ctx, sessionKey)
	}
	return t, err
}

// from is the fencing token of the first turn in a stream from the beginning: the turn that the message is
// in, was last in, or will be in, with the runs that it goes on from.
func (t turns) from(m turnstile.StoredMessage) (first int64) {
	switch {
	case m.Outcome != nil:
		return fenceOf(cmp.Or(m.Outcome.Continues, m.Outcome.Turn))
	case m.State == "running":
		first = t.latest
	default:
		first = t.latest + 1
	}
	if t.first > 0 {
		first = min(first, t.first)
	}
	return first
}

// fenceOf is the fencing token in a turn's ID.
func fenceOf(turn string) int64 {
	n, _ := strconv.ParseInt(turn[strings.LastIndexByte(turn, '-')+1:], 10, 64)
	return n
}
