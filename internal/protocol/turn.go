package protocol

import (
	"time"

	"turnstile/pkg/session"
)

// Turn is one run of an agent: what was taken, and under which fence.
type Turn struct {
	Session   string
	SessionID string // the transcript that this turn's entries go to
	ID        string
	Fence     int64

	// Taken is the message that began the turn, and Collected are those behind it
	// that the same turn takes.
	Taken
	Collected []Taken

	Attempt int   // from 1; failures raise it
	Entries int64 // entries written to this session id before, and once more for each undo, see docs/keys.md

	Reset     string        // "suspended": the session id is new for that reason
	Resume    string        // reason of the resume mark that the claim found, if any
	ResumeAge time.Duration // how old that mark is, by Redis' clock

	// Dropped are the task ids of messages that a full line has dropped, of which
	// this turn's agent is to be told: the newest, at most 50. Omitted is how many
	// older ones there were.
	Dropped []string
	Omitted int
	notes   notes

	// Started is the claim, by the worker's monotonic clock; StartedAt by Redis'.
	Started   time.Time
	StartedAt time.Time
}

// Taken is a message that became part of a turn.
type Taken struct {
	// Message is what the user said. Err tells why there is none: another
	// program's task in a session's queue.
	Message session.Message
	Err     error

	Redelivered int           // how often it came back without a failure: crashes and drains
	Age         time.Duration // since it was first seen

	taskID   string
	retried  int
	fastTask string // see part.task
}

// First reports whether the message was in no turn before: it is neither retried
// nor redelivered.
func (t Taken) First() bool { return t.retried == 0 && t.Redelivered == 0 }

// plainMost is how long a task is that is sent back whole with the end of its
// turn, which saves Redis from looking at it.
const fastTaskMost = 16 << 10

// Messages are all that the turn was taken for.
func (t Turn) Messages() []Taken { return append([]Taken{t.Taken}, t.Collected...) }

// take reads a message as scripts return it.
func take(prefix string, r returned, limits session.Limits) Taken {
	t := Taken{taskID: r.text("id"), Age: max(r.ms("age"), 0), Redelivered: int(r.int("redelivered"))}
	msg := r.text("msg")
	if len(msg) <= fastTaskMost && !r.is("unique") {
		t.fastTask = msg
	}
	task, err := ParseTaskMessage([]byte(msg))
	if err == nil {
		t.Message, err = task.Message(limits)
	}
	t.Message.ID = MessageID(prefix, t.taskID)
	t.Err, t.retried = err, task.retried
	return t
}
