package worker

// uncounted is a count that is unknown or irrelevant.
const uncounted int64 = -1

// seen is a state of a transcript: the one that an agent knows, or the present one.
type seen struct {
	transcriptID string // empty: unknown
	entries      int64  // written so far, or uncounted
}

// sameTranscript reports whether the counts of two states may be compared.
func (s seen) sameTranscript(other seen) bool {
	return s.transcriptID == "" || other.transcriptID == "" || s.transcriptID == other.transcriptID
}

// comparableTo reports whether both counts are known and belong to one transcript.
func (s seen) comparableTo(other seen) bool {
	return s.entries != uncounted && other.entries != uncounted && s.sameTranscript(other)
}

// rebased returns the state that an agent has seen after it ran a turn that left the transcript at
// now.
func (s seen) rebased(now seen) seen {
	if s.comparableTo(now) {
		s.entries = now.entries
	}
	return s
}

// entering returns the state that an agent has seen when it is about to run a turn at now. In
// another transcript it starts with the history that it gets.
func (s seen) entering(now seen) seen {
	if s.entries == uncounted || s.sameTranscript(now) {
		return s
	}
	return now
}

// verdict says why a session's warm agent is used for the next turn or replaced.
type verdict string

const (
	buildFirst    verdict = "there is none"
	reuse         verdict = "it fits"
	otherSettings verdict = "its settings have changed"
	otherAgent    verdict = "the session has another agent"
	hasEnded      verdict = "it has ended"
	otherWriter   verdict = "another writer changed the transcript"
)

// judge decides between a warm agent and a new one. had may be nil. If the transcripts cannot be
// compared, it keeps the warm agent.
func judge(had *warmAgent, signature string, now seen) verdict {
	switch {
	case had == nil:
		return buildFirst
	case had.Ended():
		return hasEnded
	case had.signature != signature:
		return otherSettings
	case had.seen.comparableTo(now) && had.seen.entries != now.entries:
		return otherWriter
	}
	return reuse
}
