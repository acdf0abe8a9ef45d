package terminal

import (
	"fmt"
	"strings"

	"turnstile/internal/text/printable"
	"turnstile/pkg/resume"
	"turnstile/pkg/session"
)

// note returns an event as one line for a person who follows a message. own reports whether the
// event's messages are that person's. alert marks an unexpected event. The text is empty for events
// that are shown in another way, such as the reply, or not at all.
func note(e session.Event, own bool) (text string, alert bool) {
	switch e.Type {
	case session.EventTitle:
		text = "title: " + e.Text
	case session.EventQueued:
		text = fmt.Sprintf("waits in the queue, position %d", e.Position)
		if e.Mode != "" && e.Mode != session.ModeQueue {
			text += fmt.Sprintf(" (%s)", e.Mode)
		}
	case session.EventSteered:
		text = "handed to the running turn"
		if !own {
			text = "the turn took in message " + strings.Join(e.Messages, ", ")
		}
	case session.EventTurnStarted:
		switch {
		case e.Reset != "":
			text, alert = "a new conversation begins: the last one was interrupted too often", true
		case e.Continues != "" && e.Resume != "":
			text = "the turn goes on after " + interruption(e.Resume)
		case e.Resume != "":
			text = "the turn is resumed after " + interruption(e.Resume)
		}
	case session.EventTurnRetry:
		text = fmt.Sprintf("attempt %d failed: %s; again in %s", e.Attempt, e.Why(), e.RetryIn)
		alert = true
	case session.EventTurnRequeued:
		switch {
		case e.Reason == session.ReasonParked && e.Name != "":
			return printable.Line("the turn waits without a worker, and goes on after " + e.Name), false
		case e.Reason == session.ReasonParked:
			return "the turn waits without a worker, and goes on when this is decided", false
		case e.Reason == session.ReasonThrottled:
			return "the turn waits for its agent's provider, and goes on in " + e.RetryIn.String(), false
		}
		text, alert = "the turn was interrupted by "+interruption(e.Reason)+"; its message stays", true
	case session.EventNotice:
		text = e.Text
	}
	return printable.Line(text), alert
}

// interruption returns the reason of a turn's interruption as text.
func interruption(reason string) string {
	switch reason {
	case resume.ReasonRestart:
		return "its worker's restart"
	case resume.ReasonShutdown:
		return "its worker's shutdown"
	case resume.ReasonCrash:
		return "its worker's death, or its lost connection to Redis"
	case resume.ReasonLeaseLost:
		return "a lease that its worker could not renew in time"
	case session.ReasonUnavailable:
		return "a worker that cannot start the agent now"
	}
	return "an interruption (" + reason + ")"
}

// Ending returns one line about the end of a message that was not done, with the detail for
// operators.
func Ending(end session.Outcome) string {
	status, why := string(end.Status), end.Why()
	switch {
	case why == "":
		return status
	case strings.HasPrefix(why, status):
		return printable.Line(why)
	}
	return printable.Line(status + ": " + why)
}
