package openai

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"turnstile"
	"turnstile/internal/gateway"
	"turnstile/pkg/session"
)

// A stream that ends early says so in an event, which makes every SDK fail.

// errRestarted is the cause of the end of a stream whose turn is run again.
var errRestarted = errors.New("the turn is run again")

// voids reports whether an event makes what was streamed of a turn void: the turn is run again. No
// SDK can take text back, so a stream that has sent some ends.
func voids(turn string, e session.Event) bool {
	return e.Turn != "" && e.Turn != turn || e.Type == session.EventTurnRetry || e.Type == session.EventTurnRequeued
}

// restarted is the problem of a stream whose text was voided. advice says how to get the new one.
func restarted(advice string) problem {
	return problem{Message: "The turn is run again: the text so far does not count. " + advice, Type: invalidRequest, Code: "turn_restarted"}
}

// errLost is the cause of the end of a stream of which events behind the client's last one are gone.
var errLost = errors.New("events were trimmed")

// lost is the problem of such a stream. A client would join its text to what comes behind the gap.
var lost = problem{
	Message: "Events behind starting_after are not stored any more. Get the response when it has ended: it has all of its output.",
	Type:    invalidRequest, Code: "events_lost",
}

// interrupted is the problem of a stream whose reading failed, or that the gateway has ended. Its message
// is stored, so its type is one after which no SDK repeats the request: the message would run twice.
func interrupted(ctx context.Context, err error) problem {
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	p := problemOf(gateway.ProblemOf(gateway.Interrupted(err)))
	p.Type = invalidRequest
	return p
}

// unrepeated is the problem of a stream that was not opened, although its message is stored: one after which
// no SDK repeats the request. One with an Idempotency-Key may be repeated.
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

// firstTurn is the fencing token of the first turn that a stream from the beginning tells: the turn that the
// message is in, was last in, or will be in. latest is the session's, read before the message:
// read later, it may be that of a turn behind the message's.
func firstTurn(m turnstile.StoredMessage, latest int64) int64 {
	switch {
	case m.Outcome != nil:
		return fenceOf(m.Outcome.Turn)
	case m.State == "running":
		return latest
	}
	return latest + 1
}

// fenceOf is the fencing token in a turn's id.
func fenceOf(turn string) int64 {
	n, _ := strconv.ParseInt(turn[strings.LastIndexByte(turn, '-')+1:], 10, 64)
	return n
}
