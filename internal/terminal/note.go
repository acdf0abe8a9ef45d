package terminal

import (
	"fmt"
	"strings"
	"time"

	"turnstile/internal/printable"
	"turnstile/pkg/agent"
	"turnstile/pkg/resume"
	"turnstile/pkg/session"
)

// note is an event in one line, for a person who follows a message; own says that
// the event's messages are that person's. alert: it is otherwise than expected. The
// text is empty for what a person sees in another way, as the reply, or need not
// see.
func note(e session.Event, own bool) (text string, alert bool) {
	switch e.Type {
	case string(agent.EventTitle):
		text = "title: " + e.Text
	case session.EventQueued:
		text = fmt.Sprintf("waits in line, position %d", e.Position)
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
		case e.Resume != "":
			text = "the turn is resumed after " + interruption(e.Resume)
		}
	case session.EventTurnRetry:
		text = fmt.Sprintf("attempt %d failed: %s; again in %s", e.Attempt, e.Error, time.Duration(e.RetryInMS)*time.Millisecond)
		alert = true
	case session.EventTurnRequeued:
		text, alert = "the turn was interrupted by "+interruption(e.Reason)+"; its message stays", true
	case session.EventNotice:
		text = e.Text
	}
	return printable.Line(text), alert
}

// interruption is why a turn was interrupted, in words.
func interruption(reason string) string {
	switch reason {
	case resume.ReasonRestart:
		return "its worker's restart"
	case resume.ReasonShutdown:
		return "its worker's shutdown"
	case resume.ReasonCrash:
		return "its worker's death"
	}
	return "an interruption (" + reason + ")"
}

// Ending is how a message ended that was not done, in one line.
func Ending(end session.Outcome) string {
	status := string(end.Status)
	switch {
	case end.Error == "":
		return status
	case strings.HasPrefix(end.Error, status):
		return printable.Line(end.Error)
	}
	return printable.Line(status + ": " + end.Error)
}
