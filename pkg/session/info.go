package session

import (
	"time"
)

// The phases of a session.
const (
	PhaseIdle     = "idle"     // nobody owns it
	PhaseStarting = "starting" // a turn was claimed; its agent does not run yet
	PhaseRunning  = "running"  // the turn's agent runs
)

// Info is what is known of a session.
type Info struct {
	Session   string
	SessionID string // "" before its first turn
	Phase     string // idle, starting or running
	Worker    string // the owner's, "" if idle
	Fence     int64  // of the turn that runs, or of the last one
	Turn      string // the id of the turn that runs
	Messages  []string

	Question *Question // what the turn's agent asks the user, nil: nothing

	StartedAt time.Time     // when the turn was claimed, by Redis' clock
	Since     time.Duration // how long it has been running
	Mode      Mode          // what a message does that names no mode, while the turn runs
	Left      time.Duration // how long the sentinel lives without renewal
	Pending   int           // messages that wait in line
	Scheduled int           // messages that wait for their time
	Archived  int           // dead letters
	Entries   int64         // of the transcript

	Title    string        // of the session id, "" if it has none
	TitleBy  string        // who gave it: user or agent
	Settings QueueSettings // of /queue; zero fields mean the worker's
	Dropped  int           // messages dropped from a full line, of which the next turn is told, with a line or as a number
}
