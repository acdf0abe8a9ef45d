package slash_test

import (
	"testing"

	"turnstile/test/acl"
)

// The commands need no more of Redis than docs/security.md gives a sender.
func TestSuiteUnderACL(t *testing.T) {
	t.Parallel()
	acl.Suite(t,
		"TestCommandHistory", "TestCommandResume")
}
