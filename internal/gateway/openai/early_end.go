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
	"turnstile/internal/stream"
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

// from returns where a stream from the beginning begins: with the turn that the message is in, was last in, or
// will be in, and the runs that it goes on from.
func (t turns) from(m turnstile.StoredMessage) beginning {
	switch {
	case m.Outcome != nil:
		return beginning{fenceOf(cmp.Or(m.Outcome.Continues, m.Outcome.Turn)), fenceOf(m.Outcome.Turn)}
	case m.State == "running":
		return t.to(t.latest)
	}
	return t.to(t.latest + 1)
}

func (t turns) to(run int64) beginning {
	if t.first > 0 {
		return beginning{min(run, t.first), run}
	}
	return beginning{run, run}
}

// beginning is where a stream begins: the fencing tokens of the first run of a turn, and of its latest one.
type beginning struct{ first, latest int64 }

// past holds the events of the runs before the latest one until that begins: then it is known which of them
// count. The zero value holds none.
type past struct {
	until  int64 // the latest run
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
		for _, e := range stream.Standing(append(p.events, e)) {
			see(e)
		}
		*p = past{}
	}
}

// fenceOf is the fencing token in a turn's ID.
func fenceOf(turn string) int64 {
	n, _ := strconv.ParseInt(turn[strings.LastIndexByte(turn, '-')+1:], 10, 64)
	return n
}
