package session

// Status is how a turn ended, as its messages' senders see it.
type Status string

// The ends of a turn.
const (
	StatusDone        Status = "done"        // the reply is there
	StatusFailed      Status = "failed"      // archived with the error
	StatusInterrupted Status = "interrupted" // a newer message took its place; what it did is kept, or archived if it was rolled back
	StatusExpired     Status = "expired"     // archived: too old to be run
	StatusStopped     Status = "stopped"     // archived: somebody said /stop
	StatusDropped     Status = "dropped"     // archived: too many were waiting
)

// Outcome is the end of a message.
type Outcome struct {
	Session   string `json:"session"`
	SessionID string `json:"session_id,omitempty"`
	ID        string `json:"id"`
	Turn      string `json:"turn,omitempty"`
	Status    Status `json:"status"`
	Reply     string `json:"reply"`
	Error     string `json:"error,omitempty"`

	DurationMS int64  `json:"duration_ms"`     // the turn's, from its claim
	Usage      *Usage `json:"usage,omitempty"` // the turn's; nil: the agent did not tell
}
