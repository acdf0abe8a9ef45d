package slash

import (
	"testing"

	"turnstile/pkg/session"
	"turnstile/test/expect"
)

// Calls of clients' functions and messages that have only their results are named as such.
func TestHistoryOfFunctions(t *testing.T) {
	t.Parallel()
	expect.Equal(t, "a call", line(session.Entry{Role: session.RoleTool, Tool: &session.ToolUse{Name: "pick", Client: true}}), "tool: pick, of the client's program")
	expect.Equal(t, "results", line(session.Entry{Role: session.RoleUser, Brought: &session.Brought{Results: make([]session.CallResult, 2)}}), "user: results of 2 calls")
}
