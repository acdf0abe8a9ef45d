package recovery_test

import (
	"testing"

	"turnstile/test/acl"
)

// Recovery needs no more of Redis than docs/security.md gives a worker.
func TestSuiteUnderACL(t *testing.T) {
	t.Parallel()
	acl.Suite(t,
		"TestFindWhatWasLeft", "TestReapFindsADeadOwner", "TestReapPutsWhatHasToWaitIntoDue", "TestDue",
		"TestSweep", "TestStoppedMessagesAreFound")
}
