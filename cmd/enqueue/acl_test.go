package main

import (
	"testing"

	"turnstile/test/acl"
)

// enqueue, and a sender that uses only docs/wire.md, need no more of Redis than docs/security.md
// grants their user.
func TestSuiteUnderACL(t *testing.T) {
	t.Parallel()
	acl.Suite(t,
		"TestReceipts", "TestTheMessageArrivesAsItWasGiven", "TestADelayedMessageIsWaitedFor",
		"TestFollowStreams", "TestWaitGoesOnThroughARetryAndARequeue", "TestB08_CommandsAreAnsweredAtOnce",
		"TestAllModes", "TestAFileWithReplies", "TestFollowASteer", "TestFollowThroughADrain", "TestRefusedMessagesExitWith3",
		"TestWireMessageHasAReply", "TestWireDelayedMessage", "TestWireBadPayload",
		"TestWaitTellsThatNoWorkerRuns", "TestReplyTo",
	)
}
