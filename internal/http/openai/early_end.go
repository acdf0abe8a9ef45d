package openai

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"turnstile"
	"turnstile/internal/http/gateway"
	"turnstile/internal/protocol/stream"
	"turnstile/pkg/session"
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

// lastRun is the fencing token of the latest run that a message is in, was last in, or will be in. latest is the
// session's token. It must be read before the message, since later it may be that of a later turn.
func lastRun(m turnstile.StoredMessage, latest int64) int64 {
	switch {
	case m.Outcome != nil:
		return fenceOf(m.Outcome.Turn)
	case m.State == "running":
		return latest
	}
	return latest + 1
}

// past holds the events of a message's runs before the last one until that begins, in a stream from the beginning:
// then it is known which of them count. The zero value holds none.
type past struct {
	until  int64 // the last run, see lastRun
	events []session.Event
}

// pass gives see an event, or later, if it counts then.
func (p *past) pass(e session.Event, see func(session.Event)) {
	switch {
	case e.Turn == "" || p.until == 0:
		see(e)
	case fenceOf(e.Turn) < p.until:
		p.events = append(p.events, e)
	default:
		all := append(p.events, e)
		standing := stream.Standing(all)
		for _, e := range all { // a question that was decided is an item of every stream, so that their indexes are the same
			if len(standing) > 0 && e.ID == standing[0].ID {
				standing = standing[1:]
				see(e)
			} else if e.Type == session.EventQuestionAsked {
				see(e)
			}
		}
		*p = past{}
	}
}

// fenceOf is the fencing token in a turn's ID.
func fenceOf(turn string) int64 {
	n, _ := strconv.ParseInt(turn[strings.LastIndexByte(turn, '-')+1:], 10, 64)
	return n
}
