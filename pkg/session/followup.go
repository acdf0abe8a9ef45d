package session

// FollowupState is the state of a follow-up.
type FollowupState string

// The states of a follow-up.
const (
	FollowupQueued    FollowupState = "queued"    // it waits for its own turn, or to be steered in
	FollowupSteered   FollowupState = "steered"   // the running turn's agent has it
	FollowupCollected FollowupState = "collected" // it waits to run in one turn with later messages
)

// Followup is a message that arrived while a turn was running.
type Followup struct {
	ID        string        `json:"id"`
	Text      string        `json:"text"`
	Mode      Mode          `json:"mode,omitempty"` // the message's, or else the session's
	State     FollowupState `json:"state"`
	Order     int           `json:"order"`      // place in the line when it arrived; the running turn is 1
	ArrivedAt int64         `json:"arrived_at"` // ms since 1970, by Redis' clock
}
