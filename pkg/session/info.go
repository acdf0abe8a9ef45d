package session

import "time"

// Phase is the phase of a session's turn.
type Phase string

// The phases of a session.
const (
	PhaseIdle     Phase = "idle"     // it has no owner
	PhaseStarting Phase = "starting" // a worker has claimed a turn; the agent does not run yet
	PhaseRunning  Phase = "running"  // the turn's agent runs
	PhaseParked   Phase = "parked"   // a turn waits, without a worker, to go on: after a failure, a drain, a death or a decision
)

// Info is the state of a session. That of an unknown one is idle and empty.
type Info struct {
	Session      string
	TranscriptID string // "" before the first turn
	Phase        Phase
	Fence        int64 // the fencing token of the running or the last turn

	// Of the running turn, or the parked one. Zero if the session is idle.
	Worker    string        // the owner's name, "" if it is parked
	Turn      string        // the turn's ID
	Messages  []string      // the IDs of its messages
	Question  *Question     // the open question, nil if there is none
	WaitsFor  string        // the key of what it waits for: a program's value, or a time; "": neither
	StartedAt time.Time     // when it was claimed, by Redis' clock
	Running   time.Duration // time since StartedAt
	Mode      Mode          // of a message that arrives without one
	LeaseLeft time.Duration // how long the owner's lease still lasts

	// Until is when the open question counts as denied, when the wait for a program or a time is over, or when a
	// parked turn goes on that only waits for its next attempt. Zero: none of them, or never.
	Until time.Time

	// Agent is the name of the session's agent. "" before the first turn: the session's key decides.
	Agent string

	// Needs is the agent that the session's messages wait for, because no living worker runs it, or
	// one that lives does not know agents by name. "" is none, or unknown to the workers so far.
	Needs string

	Waiting     int   // messages in the queue
	Delayed     int   // delayed messages, and those that a stock asynq.Server is to retry
	DeadLetters int   // messages that will not run again by themselves
	Entries     int64 // of the transcript

	Title   string        // "" if there is none
	TitleBy string        // "user" or "agent"
	Queue   QueueSettings // as set for this session; a zero field means the worker's
	ReplyTo string        // the destination of its messages' outcomes; "" if there is none
	Resume  Resume        // for the next turn
	Dropped int           // messages that a full queue has dropped and that the next turn's note reports

	// Broken names the key of a wrong type that kept the session from being read, "" if there is none. Only lists have
	// such sessions: one alone is an error that wraps ErrBroken. The other fields may be missing.
	Broken string
}

// Left is how long it was until Until when the state was read, 0 if it has none.
func (i Info) Left() time.Duration {
	if i.Until.IsZero() {
		return 0
	}
	return max(i.Until.Sub(i.StartedAt.Add(i.Running)), 0)
}

// Resume is an interruption's record for the next turn.
type Resume struct {
	Pending       bool      // the last turn was interrupted: the next one gets a note
	Reason        string    // why
	At            time.Time // when, by Redis' clock; zero if unknown
	Interruptions int       // interruptions that count, since the last finished turn
	Suspended     bool      // the next message begins another transcript
}
