package gateway_test

import (
	"testing"

	"turnstile/test/acl"
)

// A gateway needs no more of Redis than docs/security.md gives its user.
func TestSuiteUnderACL(t *testing.T) {
	t.Parallel()
	acl.Suite(t,
		"TestMessageIsStoredAndItsOutcomeRead", "TestIdempotencyKey", "TestStreamGoesOnBehindItsLastEvent", "TestGapAndReset",
		"TestTickets", "TestSessionAndTranscript", "TestCommands", "TestDecisions",
		"TestReplyTo", "TestListOfSessions", "TestCancelMessage", "TestForgetUndelivered", "TestOutbox", "TestDestinations", "TestStreamOfAllSessions",
		"TestScale")
}
