package cli

import (
	"encoding/json"
	"regexp"

	"turnstile/pkg/session"
)

// state is what is kept for a session's next turns.
type state struct {
	Agent   Kind   `json:"agent"`
	Session string `json:"session"` // the program's own id of it

	// Recap: no turn that told the session what had been said before it has ended well.
	// The id is kept before the program has taken in a word, and a turn that resumes the
	// session then has to tell it again.
	Recap bool `json:"recap,omitempty"`

	// Total is what a program that counts over its whole session had counted.
	Total *session.Usage `json:"total,omitempty"`
}

// anID is what is passed on as the id of a session. It never looks like an option.
var anID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:-]{0,199}$`)

// stateOf is what was kept, if this agent kept it.
func stateOf(kind Kind, kept json.RawMessage) state {
	var s state
	if len(kept) == 0 || json.Unmarshal(kept, &s) != nil || s.Agent != kind || !anID.MatchString(s.Session) {
		return state{Agent: kind}
	}
	return s
}

// since is what was used since an earlier count. A count that is lower than the
// earlier one has begun anew.
func since(total, earlier session.Usage) session.Usage {
	if total.InputTokens < earlier.InputTokens || total.CachedTokens < earlier.CachedTokens ||
		total.OutputTokens < earlier.OutputTokens || total.CostUSD < earlier.CostUSD {
		return total
	}
	total.InputTokens -= earlier.InputTokens
	total.CachedTokens -= earlier.CachedTokens
	total.OutputTokens -= earlier.OutputTokens
	total.CostUSD -= earlier.CostUSD
	return total
}
