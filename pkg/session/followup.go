package session

// FollowupState is what became of a follow-up so far.
type FollowupState string

// The states of a follow-up.
const (
	FollowupQueued    FollowupState = "queued"    // it waits for a turn of its own, or to be steered in
	FollowupSteered   FollowupState = "steered"   // it was handed to the running turn
	FollowupCollected FollowupState = "collected" // it waits for more, to be one turn with them
)

// Followup is one entry of a session's follow-ups.
type Followup struct {
	ID        string        `json:"id"`
	Text      string        `json:"text"`
	Mode      Mode          `json:"mode,omitempty"` // what it does, be it that it says so or its session
	State     FollowupState `json:"state"`
	Order     int           `json:"order"`      // place in the line when it came, the running turn counted
	ArrivedAt int64         `json:"arrived_at"` // ms since 1970, by Redis' clock
}
