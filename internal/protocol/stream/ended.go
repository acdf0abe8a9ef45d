package stream

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/redis/script"
	"turnstile/pkg/session"
)

// ArchivedByHand is the error of a dead letter that has no outcome stored.
const ArchivedByHand = "archived by an operator"

// AgentFailed is the text for users when an agent fails. The agent's own error is for operators.
const AgentFailed = "the agent failed"

// StoredOutcome returns the outcome of a completed or archived task.
func StoredOutcome(sessionKey, id, state, result string) session.Outcome {
	var e session.Event
	if json.Unmarshal([]byte(result), &e) == nil && e.Type == session.EventTurnEnded {
		return OutcomeOf(sessionKey, id, e)
	}
	// Another program ended it: asynqmon's Archive, or a stock asynq.Server.
	o := session.Outcome{Session: sessionKey, ID: id, Status: session.StatusDone, Reply: result}
	if state == "archived" {
		o.Status, o.Error, o.Code = session.StatusFailed, ArchivedByHand, session.CodeArchived
	}
	return o
}

// OutcomeOf returns the outcome of a message of the turn that ended with e.
func OutcomeOf(sessionKey, id string, e session.Event) session.Outcome {
	return session.Outcome{
		Session: sessionKey, TranscriptID: e.TranscriptID, ID: id, Turn: e.Turn, Continues: e.Continues, Status: e.Status,
		Reply: e.Reply, Error: e.Error, Code: e.Code, Detail: e.Detail, Duration: e.Duration,
		Usage: e.Usage,
	}
}

// DecodeEvents reads one entry of a session's stream. The field e has an event, and the field s the
// start of its turn if it was not sent before. It skips values that are no events.
func DecodeEvents(m redis.XMessage) []session.Event {
	ms, _, _ := strings.Cut(m.ID, "-")
	var events []session.Event
	index := 0
	for _, field := range []string{"s", "e"} {
		text, ok := m.Values[field].(string)
		if !ok {
			continue
		}
		var e session.Event
		if json.Unmarshal([]byte(text), &e) == nil {
			e.At, e.ID = time.UnixMilli(script.Number(ms)), eventID(m.ID, index)
			events = append(events, e)
		}
		index++
	}
	return events
}
