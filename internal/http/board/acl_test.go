package board_test

import (
	"testing"

	"turnstile/test/acl"
)

// The board needs no more of Redis than docs/security.md gives the gateway's user.
func TestSuiteUnderACL(t *testing.T) {
	t.Parallel()
	acl.Suite(t, "TestListByStateAndPrefix", "TestSessionPage", "TestButtons", "TestDecideOnTheBoard", "TestDeliveries")
}
