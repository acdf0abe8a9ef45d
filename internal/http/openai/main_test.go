package openai_test

import (
	"testing"

	"turnstile/test/acl"
)

// OpenAI's routes need no more of Redis than docs/security.md gives the gateway's user.
func TestSuiteUnderACL(t *testing.T) {
	t.Parallel()
	acl.Suite(t,
		"TestResponse", "TestStream", "TestBackgroundAndCancel", "TestRepeatedRequests", "TestModels", "TestChatOfASession",
		"TestOneShotIsErasedByAnyGateway", "TestOneShotThatIsStillUsed")
}
