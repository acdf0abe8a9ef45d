package protocol

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/pkg/session"
)

// ArchivedByHand is the error of a dead letter without an outcome.
const ArchivedByHand = "archived by an operator"

// StoredOutcome is how a task ended that is completed or archived.
func StoredOutcome(sessionKey, id, state, result string) session.Outcome {
	var e session.Event
	if json.Unmarshal([]byte(result), &e) == nil && e.Type == session.EventTurnEnded {
		return OutcomeOf(sessionKey, id, e)
	}
	// Another program's doing: asynqmon's Archive, or a stock asynq.Server.
	o := session.Outcome{Session: sessionKey, ID: id, Status: session.StatusDone, Reply: result}
	if state == "archived" {
		o.Status, o.Error = session.StatusFailed, ArchivedByHand
	}
	return o
}

// OutcomeOf is the outcome of a message, by the end of its turn.
func OutcomeOf(sessionKey, id string, e session.Event) session.Outcome {
	return session.Outcome{
		Session: sessionKey, SessionID: e.SessionID, ID: id, Turn: e.Turn, Status: e.Status,
		Reply: e.Reply, Error: e.Error, DurationMS: e.DurationMS,
		Usage: e.Usage,
	}
}

// DecodeEvents reads one entry of a session's stream: an event, and in the field s
// the start of its turn if that was not told before. (In n a worker of the version
// before has the start of the turn that came next.) What is no event is passed over.
// Only the last has the entry's id: who goes on behind it has seen them all.
func DecodeEvents(m redis.XMessage) []session.Event {
	ms, _, _ := strings.Cut(m.ID, "-")
	var events []session.Event
	for _, field := range []string{"s", "e", "n"} {
		text, _ := m.Values[field].(string)
		var e session.Event
		if json.Unmarshal([]byte(text), &e) == nil {
			e.At = time.UnixMilli(Number(ms))
			events = append(events, e)
		}
	}
	if n := len(events); n > 0 {
		events[n-1].ID = m.ID
	}
	return events
}
