package protocol_test

import (
	"testing"

	"turnstile/test/acl"
)

// The moves need no more of Redis than docs/security.md gives workers and senders.
func TestSuiteUnderACL(t *testing.T) {
	t.Parallel()
	acl.Suite(t,
		"TestPurge", "TestListedWithSomethingToLookAt", "TestForget", "TestForgetMany", "TestFindWhatWasLeft",
		"TestReapFindsADeadOwner", "TestReapPutsWhatHasToWaitIntoDue", "TestDue", "TestSweep",
		"TestStopWhoseSenderDies", "TestStoppedMessagesAreFound", "TestDropsInBatches", "TestSteerOfALongLine",
		"TestUntakenSteersOfALongLine", "TestDismiss", "TestForeignTasks", "TestCommandHistory",
		"TestCommandResume", "TestB75_Undo", "TestMessagesCap", "TestTooLongToBeRead", "TestTooLongElsewhere",
		"TestTrimOfALine", "TestTranscriptIsBoundedInBytes", "TestStreamIsBoundedInBytes")
}
