package worker_test

import (
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"turnstile/internal/protocol/agreement"
	"turnstile/internal/redis/redisconn"
	"turnstile/pkg/agent/echo"
	"turnstile/pkg/agent/exec"
	"turnstile/pkg/worker"
	"turnstile/test/acl"
	"turnstile/test/expect"
	"turnstile/test/redistest"
	"turnstile/test/watched"
)

// atOnce is how many tests run in parallel: they mostly wait.
const atOnce = 12

// The test binary is also the agents' guardian, and the worker processes that are killed.
func TestMain(m *testing.M) {
	exec.Init()
	redisconn.LogTo(slog.New(slog.DiscardHandler))
	if job := os.Getenv(childVariable); job != "" {
		runChild(job)
	}
	expect.AtOnce(atOnce)
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(redistest.Dialing()); err != nil {
			fmt.Fprintln(os.Stderr, "goroutines left behind:", err)
			code = 1
		}
	}
	os.Exit(code)
}

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

// A worker whose Redis user lacks a right names it, and does not start.
func TestStartWithoutARight(t *testing.T) {
	t.Parallel()
	server := redistest.StartServer(t)
	rules := acl.Rules(t)[acl.Worker]
	acl.Set(t, server.Client(), acl.Worker, slices.DeleteFunc(rules, func(word string) bool { return word == "+lmove" })...)
	rdb, err := redisconn.Open(acl.URL(t, server.URL(), acl.Worker))
	expect.OK(t, err)
	defer func() { _ = rdb.Close() }()
	w, err := worker.New(rdb, echo.New(), worker.Config{AgentName: "echo", Logger: slog.New(slog.DiscardHandler)})
	expect.OK(t, err)
	if err := w.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "it lacks LMOVE;") {
		t.Errorf("the error is %v", err)
	}
}

// Workers that do not say which settings must be the same compare their agents' names and limits.
func TestWorkersOfTwoProgramsInOneDatabase(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	one := r.worker(says("default"), named("a:*"), with(func(c *worker.Config) { c.AgentName = "claude" }))
	expect.Soon(t, "what the first publishes", func() bool {
		all, err := agreement.Living(r.ctx, r.rdb)
		expect.OK(t, err)
		return len(all) == 1
	})
	log := watched.NewOutput()
	r.worker(says("default"), with(func(c *worker.Config) {
		c.AgentName, c.Limits.MessageBytes, c.Logger = "codex", 4096, slog.New(slog.NewTextHandler(log, nil))
	}))
	for _, differs := range []string{
		`setting=agents own=default other="a default"`, `setting=AgentName own=codex other=claude`,
		`setting=Limits own="{MessageBytes:4096 Queue:10000 AllQueues:-1 Outbox:1000 Destination:1000000}" other="{MessageBytes:2097152 Queue:10000 AllQueues:-1 Outbox:1000 Destination:1000000}"`,
	} {
		log.Await(t, differs+" neighbour="+one.Name()+"\n")
	}
}
