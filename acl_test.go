package turnstile_test

import (
	"testing"

	"turnstile/test/acl"
)

// A sender's moves need no more of Redis than docs/security.md gives its user.
func TestSuiteUnderACL(t *testing.T) {
	t.Parallel()
	acl.Suite(t,
		"TestStopWhoseSenderDies", "TestB75_Undo", "TestMessagesCap", "TestDestinationCapWhileItsReadHangs")
}
