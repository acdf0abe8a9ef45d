package protocol

import (
	"slices"
	"time"

	"turnstile/internal/rediskey"
)

// keySource is what the names of a session's keys are made of.
type keySource struct {
	rediskey.Session
	sessionID, day string
}

func (k keySource) transcript() string   { return k.Transcript(k.sessionID) }
func (k keySource) processedDay() string { return k.Processed() + k.day }
func (k keySource) failedDay() string    { return k.Failed() + k.day }

// sessionKeys has a session's keys under the names that the headers of the scripts have for them.
var sessionKeys = []struct {
	name string
	key  func(keySource) string
}{
	{"sentinel", keySource.Sentinel},
	{"run", keySource.Run},
	{"record", keySource.Record},
	{"followups", keySource.Followups},
	{"resume", keySource.Resume},
	{"events", keySource.Events},
	{transcriptKey, keySource.transcript},
	{"partial", keySource.Partial},
	{"pending", keySource.Pending},
	{"active", keySource.Active},
	{"lease", keySource.Lease},
	{"paused", keySource.Paused},
	{"scheduled", keySource.Scheduled},
	{"retry", keySource.Retry},
	{"completed", keySource.Completed},
	{"processed", keySource.Processed},
	{"processed_day", keySource.processedDay},
	{"archived", keySource.Archived},
	{"failed", keySource.Failed},
	{"failed_day", keySource.failedDay},
	{"stopped", keySource.Stopped},
	{"state", keySource.State},
	{"owed", keySource.Owed},
	{"outbox", keySource.Outbox},
	{"deliveries", keySource.Deliveries},
	{"undelivered", keySource.Undelivered},
}

const transcriptKey = "transcript"

// keyAt returns the place of a key in the list that Keys returns, -1 for a key that is not there.
func keyAt(name string) int {
	for i, k := range sessionKeys {
		if k.name == name {
			return i
		}
	}
	return -1
}

// Keys returns a session's keys. Each script gets those that its header names.
func Keys(session, sessionID string, now time.Time) []string {
	k := keySource{rediskey.For(session), sessionID, now.UTC().Format(":2006-01-02")} // asynq's daily counters
	keys := make([]string, len(sessionKeys))
	for i := range sessionKeys {
		keys[i] = sessionKeys[i].key(k)
	}
	return keys
}

// withTranscript returns a session's keys with another transcript: the only key that changes while
// the session is owned. It leaves the old list as it is, which a call in flight may still read.
func withTranscript(keys []string, transcript string) []string {
	at := keyAt(transcriptKey)
	if keys[at] == transcript {
		return keys
	}
	keys = slices.Clone(keys)
	keys[at] = transcript
	return keys
}
