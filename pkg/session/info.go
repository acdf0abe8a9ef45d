package session

import "time"

// The phases of a session.
const (
	PhaseIdle     = "idle"     // it has no owner
	PhaseStarting = "starting" // a worker has claimed a turn; the agent does not run yet
	PhaseRunning  = "running"  // the turn's agent runs
)

// Info is what a session does, and its settings.
type Info struct {
	Session   string
	SessionID string // names the current transcript; "" before the first turn
	Phase     string // PhaseIdle, PhaseStarting or PhaseRunning
	Fence     int64  // the fencing token of the running or the last turn

	// The running turn. Zero if the session is idle.
	Worker    string        // the owner's name
	Turn      string        // the turn's id
	Messages  []string      // the ids of its messages
	Question  *Question     // the open question, nil if there is none
	StartedAt time.Time     // when it was claimed, by Redis' clock
	Since     time.Duration // since StartedAt
	Mode      Mode          // the mode of a message that arrives without one
	Left      time.Duration // the rest of the owner's lease

	Pending   int   // messages in the line
	Scheduled int   // messages that wait for their time
	Archived  int   // dead letters
	Entries   int64 // entries of the current transcript

	Title    string        // "" if there is none
	TitleBy  string        // "user" or "agent"
	Settings QueueSettings // of /queue; a zero field means the worker's
	Dropped  int           // messages dropped from a full line, which the next turn's note tells of
}
