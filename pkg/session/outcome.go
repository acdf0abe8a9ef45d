package session

// Status says how a message ended.
type Status string

// The statuses of an Outcome. StatusDone leaves no dead letter, and StatusInterrupted only one
// after ModeRollback. All others make the message a dead letter.
const (
	StatusDone        Status = "done"        // Reply has the reply
	StatusFailed      Status = "failed"      // Error has the reason
	StatusInterrupted Status = "interrupted" // a newer message cancelled the turn
	StatusExpired     Status = "expired"     // it waited longer than it may
	StatusStopped     Status = "stopped"     // by Stop or /stop
	StatusDropped     Status = "dropped"     // a full line dropped it
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
	Usage      *Usage `json:"usage,omitempty"` // of the turn; nil if the agent reported none
}
