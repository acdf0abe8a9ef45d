package protocol

import (
	"time"

	"turnstile/internal/protocol/scripts"
)

// Keys returns a session's keys, without the tasks.
func Keys(session, transcriptID string, now time.Time) []string {
	return scripts.EraseKeys(scripts.KeysOf(session, transcriptID, now))
}
