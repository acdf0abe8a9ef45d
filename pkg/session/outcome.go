package session

// Status is how a message ended.
type Status string

// The statuses of an Outcome. Every status but StatusDone and StatusInterrupted makes the
// message a dead letter; StatusInterrupted does after ModeRollback.
const (
	StatusDone        Status = "done"        // Reply is there
	StatusFailed      Status = "failed"      // Error tells why
	StatusInterrupted Status = "interrupted" // a newer message cancelled the turn
	StatusExpired     Status = "expired"     // it waited too long
	StatusStopped     Status = "stopped"     // by Stop or /stop
	StatusDropped     Status = "dropped"     // from a full line
)

// Outcome is how a message ended.
type Outcome struct {
	Session   string `json:"session"`
	SessionID string `json:"session_id,omitempty"`
	ID        string `json:"id"`
	Turn      string `json:"turn,omitempty"`
	Status    Status `json:"status"`
	Reply     string `json:"reply"`
	Error     string `json:"error,omitempty"`

	DurationMS int64  `json:"duration_ms"`     // of the turn, from its claim
	Usage      *Usage `json:"usage,omitempty"` // of the turn; nil if the agent reports none
}
