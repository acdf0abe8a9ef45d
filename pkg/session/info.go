package session

import "time"

// The phases of a session.
const (
	PhaseIdle     = "idle"     // it has no owner
	PhaseStarting = "starting" // a worker has claimed a turn; the agent does not run yet
	PhaseRunning  = "running"  // the turn's agent runs
)

// Info is the state of a session, as pkg/admin reads it.
type Info struct {
	Session   string
	SessionID string // names the current transcript; "" before the first turn
	Phase     string // PhaseIdle, PhaseStarting or PhaseRunning
	Fence     int64  // the fencing token of the running or the last turn

	// Of the running turn. Zero if the session is idle.
	Worker    string        // the owner's name
	Turn      string        // the turn's id
	Messages  []string      // the ids of its messages
	Question  *Question     // the open question, nil if there is none
	StartedAt time.Time     // when it was claimed, by Redis' clock
	Since     time.Duration // time since StartedAt
	Mode      Mode          // the mode of a message that arrives without one
	Left      time.Duration // for how long the owner's lease still lasts

	Pending   int   // messages in the line
	Scheduled int   // delayed messages, and messages that wait for a retry
	Archived  int   // dead letters
	Entries   int64 // entries of the current transcript

	Title    string        // "" if there is none
	TitleBy  string        // "user" or "agent"
	Settings QueueSettings // as set by /queue; a zero field means the worker's
	ReplyTo  string        // the destination of its messages' outcomes; "" if there is none
	Resume   Resume        // what an interruption left for the next turn
	Dropped  int           // messages that a full line has dropped and that the next turn's note reports
}

// Resume is what an interruption left for the next turn.
type Resume struct {
	Pending       bool      // the last turn was interrupted: the next one gets a note
	Reason        string    // why
	At            time.Time // when, by Redis' clock; zero if unknown
	Interruptions int       // turns that were interrupted since the last finished one
	Suspended     bool      // the next message begins another transcript
}
