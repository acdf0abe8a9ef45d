package gateway

import (
	"time"

	"turnstile/pkg/admin"
	"turnstile/pkg/session"
)

// Listed is a session in a list, as `worker ls --json` prints it.
type Listed struct {
	Session      string        `json:"session"`
	TranscriptID string        `json:"session_id"`
	Phase        session.Phase `json:"phase"`
	State        admin.State   `json:"state"`
	Paused       bool          `json:"paused"`
	Suspended    bool          `json:"suspended"`
	Worker       string        `json:"worker"`
	Turn         string        `json:"turn"`
	Since        *time.Time    `json:"since"` // null: no turn runs
	Until        *time.Time    `json:"until"` // of the open question or a parked turn; null: none, or no such time
	Pending      int           `json:"pending"`
	Scheduled    int           `json:"scheduled"`
	Archived     int           `json:"archived"`
	Title        string        `json:"title"`
	Agent        string        `json:"agent"`
	Needs        string        `json:"needs"`
	Broken       string        `json:"broken,omitempty"` // the key that has a wrong type
	ActiveAt     *time.Time    `json:"active_at"`        // null: unknown

	Failing     []Failing `json:"failing,omitempty"`     // destinations that did not take its next delivery
	Undelivered int       `json:"undelivered,omitempty"` // deliveries that were given up
}

// ListedOf returns a session for a list.
func ListedOf(s admin.SessionInfo) Listed {
	k := Listed{
		Session: s.Session, TranscriptID: s.TranscriptID, Phase: s.Phase, State: s.State, Paused: s.Paused, Suspended: s.Suspended,
		Worker: s.Worker, Turn: s.Turn, Since: StartOf(s.Info), Until: EndOf(s.Info), Pending: s.Waiting, Scheduled: s.Delayed, Archived: s.DeadLetters,
		Title: s.Title, Agent: s.Agent, Needs: s.Needs, Broken: s.Broken,
		Failing: failingOf(s), Undelivered: s.GivenUp,
	}
	for i := range k.Failing {
		k.Failing[i].Error = "" // it may have anything
	}
	if at := s.LastActive.UTC(); !s.LastActive.IsZero() {
		k.ActiveAt = &at
	}
	return k
}
