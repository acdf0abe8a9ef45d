package maintenance_test

import (
	"testing"

	"turnstile/test/acl"
)

// Maintenance needs no more of Redis than docs/security.md gives a worker.
func TestSuiteUnderACL(t *testing.T) {
	t.Parallel()
	acl.Suite(t,
		"TestPurge", "TestListedWithSomethingToLookAt", "TestForget", "TestForgetMany", "TestTrimOfALine")
}
