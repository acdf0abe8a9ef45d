package protocol_test

import (
	"testing"

	"turnstile/test/acl"
)

// The moves need no more of Redis than docs/security.md gives workers and senders.
func TestSuiteUnderACL(t *testing.T) {
	t.Parallel()
	acl.Suite(t,
		"TestDropsInBatches", "TestSteerOfALongLine", "TestUntakenSteersOfALongLine", "TestDismiss",
		"TestForeignTasks", "TestTooLongToBeRead", "TestTooLongElsewhere", "TestTranscriptIsBoundedInBytes",
		"TestStreamIsBoundedInBytes")
}
