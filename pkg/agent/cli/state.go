package cli

import (
	"encoding/json"
	"regexp"

	"turnstile/pkg/session"
)

// state is stored for the session's next turns.
type state struct {
	Agent   Kind   `json:"agent"`
	Session string `json:"session"` // the program's own ID

	// Recap: no turn that gave the session a recap has succeeded yet. The ID is stored before the
	// program has read anything, so a turn that resumes the session must then give the recap again.
	Recap bool `json:"recap,omitempty"`

	// Given is the last turn's prompt. nil: nobody knows where it stands.
	Given *given `json:"given,omitempty"`

	// Deferred is the call that waits for the user's decision.
	Deferred *deferred `json:"deferred,omitempty"`

	// Failures is how many runs in a row this session may have made fail.
	Failures int `json:"failures,omitempty"`

	// Total is the count of a program that counts over its whole session.
	Total *session.Usage `json:"total,omitempty"`
}

// anID matches IDs that may be passed on as a session's. None looks like an option.
var anID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:-]{0,199}$`)

// stateOf is the stored state, if this agent stored it. A sender's Redis user can write the record, so everything in
// it is checked like a program's output.
func stateOf(kind Kind, stored json.RawMessage) state {
	var s state
	if len(stored) == 0 || json.Unmarshal(stored, &s) != nil || s.Agent != kind || !anID.MatchString(s.Session) {
		return state{Agent: kind}
	}
	if g := s.Given; g != nil && g.From < 0 {
		s.Given = nil
	}
	if d := s.Deferred; d != nil && (!anID.MatchString(d.ID) || !calledTool.MatchString(d.Name) || len(d.Input) > shownInput) {
		s.Deferred = nil
	}
	if u := s.Total; u != nil && min(u.InputTokens, u.CachedTokens, u.OutputTokens) < 0 {
		s.Total = nil
	}
	return s
}

// since is the usage since an earlier count. A count that is lower than the earlier one has begun
// at zero again.
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
