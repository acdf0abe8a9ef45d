package main

import (
	"testing"

	"turnstile/test/acl"
)

// The operator's commands need no more of Redis than docs/security.md grants its user.
func TestSuiteUnderACL(t *testing.T) {
	t.Parallel()
	acl.Suite(t,
		"TestLook", "TestShowQuestion", "TestDeadList", "TestDeadRerun", "TestDeadDrop",
		"TestForgetWithADirectory", "TestSender", "TestOutboxList", "TestOutboxRedriveAndDrop", "TestDestinations", "TestShowOwing", "TestStates", "TestLs", "TestWorkers", "TestShowRunningTurn", "TestShowFollow",
	)
}
