package worker_test

import (
	"testing"

	"turnstile/test/acl"
)

// Workers and senders need no more permissions in Redis than docs/security.md gives their users.
func TestSuiteUnderACL(t *testing.T) {
	t.Parallel()
	acl.Suite(t,
		"TestB05_SecondMessageWaits", "TestCollectedTurn", "TestInterruptAndRollback", "TestInterruptMode",
		"TestNoteListsDroppedMessages", "TestStop", "TestInspectorCancelStopsThatTurnOnly",
		"TestSteerIsAccepted", "TestSteerIsNotTaken", "TestSteeredTurnIsKilled", "TestDecisionInTime",
		"TestEventsInOrder", "TestAgentStateReachesTheNextWorker", "TestUsage", "TestB54_SaveWritesTheRecord",
		"TestB71_TitleOfTheAgent", "TestB75_RetryRunsAgain", "TestB75_B76_UndoRace",
		"TestB77_RotationKeepsTheLock", "TestB81_StaleMessages", "TestB82_DuplicateDelivery", "TestTurnShare",
		"TestTheWorkerWithTheWarmAgentClaimsFirst", "TestRetryAtTheHeadOfTheLine",
		"TestArchivedAfterMaxAttempts", "TestB24_ASuspendedSessionBeginsAnew", "TestResumedTurnGoesOn", "TestDrainHandsOver",
		"TestB36_EveryRunningTurnIsMarked", "TestB38_MarkedBeforeTheInterrupt", "TestB64_SurvivesKill",
		"TestCrashIsRecoveredWithinTheTTL", "TestDeadlyMessageIsArchived", "TestMaintenance", "TestTokensOfTheDay",
	)
}
