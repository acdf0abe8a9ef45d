package protocol_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"turnstile"
	"turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/admin"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// A turn with steps stays one while it waits for its retry: nothing runs before it, nobody takes its message
// out of it, and it does not count as waiting.
func TestParkedTurnIsNotOvertaken(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Worker = actors.NewWorker(t, b.Redis, "w", func(c *protocol.Config) { c.Line.Cap, c.Line.Drop = 1, session.DropOld })
	b.Say("before")
	b.Drain()
	parked(b, time.Hour)
	chat, inspector := b.Chat(), b.Inspector()
	info := b.Info()
	if info.Phase != session.PhaseParked || info.Waiting != 1 || len(info.Messages) != 1 || info.Messages[0] != "now" || info.Worker != "" {
		t.Errorf("the session: %+v", info)
	}
	for name, err := range map[string]error{
		"undo":  func() error { _, err := chat.Undo(b.Ctx); return err }(),
		"retry": func() error { _, err := chat.Retry(b.Ctx); return err }(),
	} {
		if !errors.Is(err, session.ErrBusy) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := chat.Cancel(b.Ctx, "now"); !errors.Is(err, session.ErrRunning) {
		t.Errorf("cancel: %v", err)
	}
	if err := inspector.DeleteTask(rediskey.Queue(actors.Key), b.Task("now")); err == nil {
		t.Error("asynqmon deletes its message")
	}
	if err := inspector.ArchiveTask(rediskey.Queue(actors.Key), b.Task("now")); err == nil {
		t.Error("asynqmon archives its message")
	}
	expect.Equal(t, "the second in the queue", b.Say("later").Position, 2) // "next" has made room
	expect.Equal(t, "next", b.Outcome("next").Status, session.StatusDropped)
	b.ClaimNothing("it waits")

	b.Redis.HSet(b.Ctx, b.Keys.Run(), "hold", "1 "+b.Task("now"))
	h := b.Start()
	if turn := h.Turn(); turn.Message.ID != "now" || turn.Carries != protocol.CarriesSteps || turn.Attempt != 2 || turn.Redelivered != 0 {
		t.Errorf("the turn: %+v", turn)
	}
	expect.Equal(t, "the next one runs under the same claim", b.Finish(h), true)
}

// The end of a parked turn is requested as that of a running one, and a worker ends it at once, with what it
// has done.
func TestParkedTurnIsEnded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ask    func(b *actors.Bench) error
		status session.Status
		kept   bool // its work is in the transcript
		next   string
	}{
		"stop":      {func(b *actors.Bench) error { _, err := b.Chat().Stop(b.Ctx); return err }, session.StatusStopped, false, ""},
		"cancel":    {func(b *actors.Bench) error { return b.Chat().CancelTurn(b.Ctx, "now") }, session.StatusStopped, false, "next"},
		"interrupt": {func(b *actors.Bench) error { b.Say("new", session.ModeInterrupt); return nil }, session.StatusInterrupted, true, "new"},
		"rollback":  {func(b *actors.Bench) error { b.Say("new", session.ModeRollback); return nil }, session.StatusInterrupted, false, "new"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			parked(b, time.Hour)
			b.Pop()
			expect.OK(t, c.ask(b))
			expect.Equal(t, "a worker is woken", b.IsIn(rediskey.Ready, actors.Key), true)
			if c.next == "" {
				b.ClaimNothing("all is stopped")
			} else {
				expect.Equal(t, "runs next", b.Drain()[0], c.next)
			}
			expect.Equal(t, "its work is kept", slices.Contains(b.Transcript(b.Info().TranscriptID), "item"), c.kept)
			expect.Equal(t, "outcome", b.Outcome("now").Status, c.status)
			expect.Equal(t, "journals left", b.Redis.Exists(b.Ctx, b.Keys.Journal()).Val(), int64(0))
		})
	}
}

// A message whose parked turn was stopped runs at once when it is run again.
func TestStoppedParkedTurnRunsAgain(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	parked(b, time.Hour)
	expect.OK(t, b.Chat().CancelTurn(b.Ctx, "now"))
	expect.List(t, "runs", b.Drain(), "next")
	_, err := b.Client.Operate(actors.Key).Rerun(b.Ctx, admin.All)
	expect.OK(t, err)
	expect.List(t, "runs again", b.Drain(), "now")
}

// A question for which a turn is parked stays in the list of sessions that need attention.
func TestParkedQuestionNeedsAttention(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	waits(b)
	b.Sweep()
	expect.Equal(t, "it is listed", b.IsIn(rediskey.Attention, actors.Key), true)
	expect.OK(t, b.Redis.Del(b.Ctx, rediskey.Attention).Err())
	b.Sweep()
	expect.Equal(t, "a sweep lists it again", b.IsIn(rediskey.Attention, actors.Key), true)
}

// A sweep counts the turns that are parked, and knows the oldest open question.
func TestSweepCountsParkedTurns(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	waits(b)
	counts := func() (int64, time.Duration) {
		t.Helper()
		b.Sweep()
		backlog, err := b.Client.Backlog(b.Ctx)
		expect.OK(t, err)
		return backlog.Parked, backlog.Asked
	}
	b.Redis.HSet(b.Ctx, b.Keys.Run(), "questions", fmt.Sprintf("1 %d 1 %d", b.Info().Fence, b.Redis.Time(b.Ctx).Val().Add(-time.Hour).UnixMilli()))
	if parked, asked := counts(); parked != 1 || asked < time.Hour || asked > 2*time.Hour {
		t.Errorf("%d parked, the oldest question for %s", parked, asked)
	}
	_, err := b.Chat().Decide(b.Ctx, "1", session.Allow)
	expect.OK(t, err)
	b.Drain()
	if parked, asked := counts(); parked != 0 || asked != 0 {
		t.Errorf("after the decision %d parked, the oldest question for %s", parked, asked)
	}
}

// Another agent begins the message of a parked turn anew, without its steps.
func TestParkedTurnOfAnotherAgent(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	parked(b, time.Hour)
	_, err := b.Chat().NewTranscript(b.Ctx, turnstile.TranscriptConfig{Agent: "coder"})
	expect.OK(t, err)
	b.Worker = actors.NewWorker(t, b.Redis, "coder", func(c *protocol.Config) { c.Agents = []string{"coder"} })
	b.ClaimNothing("it waits")
	b.Redis.HSet(b.Ctx, b.Keys.Run(), "hold", "1 "+b.Task("now"))
	h := b.Start()
	expect.Equal(t, "runs", h.Turn().Message.ID+string(h.Turn().Carries), "now")
	expect.Equal(t, "journals left", b.Redis.Exists(b.Ctx, b.Keys.Journal()).Val(), int64(0))
}

// /new lets a parked turn go on in the new conversation.
func TestParkedTurnGoesOnAfterNew(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	parked(b, 0)
	sid, err := b.Chat().NewTranscript(b.Ctx, turnstile.TranscriptConfig{})
	expect.OK(t, err)
	h := b.Start()
	expect.Equal(t, "transcript", h.Turn().TranscriptID, sid)
	expect.Equal(t, "carries", h.Turn().Carries, protocol.CarriesSteps)
}

// While a worker of the version before may live, a turn with steps waits in the queue, where that one finds it.
func TestNoParksBesideOldWorkers(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Worker = actors.NewWorker(t, b.Redis, "w", func(c *protocol.Config) { c.Parks = func() bool { return false } })
	parked(b, time.Hour)
	expect.List(t, "waiting", b.Waiting(), "now", "next")
	expect.Equal(t, "phase", b.Info().Phase, session.PhaseIdle)
}

// A long error, as an agent's, is truncated. Retries do not make the task grow by more than that.
func TestLongErrors(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	long := errors.New(strings.Repeat("ä", 1<<20))
	for range 3 {
		h := b.Start()
		expect.OK(t, h.Retry(b.Ctx, long, 0, 0))
	}
	if n := b.Redis.HStrLen(b.Ctx, b.Keys.Task(b.Task("a")), "msg").Val(); n > 4000 {
		t.Errorf("the task has %d bytes", n)
	}
	_, err := b.Start().Finish(b.Ctx, protocol.End{Status: session.StatusFailed, Error: long.Error()})
	expect.OK(t, err)
	if n := len(b.Outcome("a").Error); n < 16<<10 || n > 17<<10 {
		t.Errorf("the error has %d bytes", n)
	}
}

// A retry does not get the checkpoint of the failed attempt.
func TestRetryForgetsTheFailedAttempt(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	h := b.Start()
	expect.OK(t, actors.Checkpoint(b.Ctx, h, []session.Entry{{Role: session.RoleAssistant, Text: "half"}}))
	expect.OK(t, h.Retry(b.Ctx, errors.New("flaky"), 0, 0))
	past, err := b.Start().History(b.Ctx)
	expect.OK(t, err)
	if past.Earlier != nil {
		t.Errorf("the second attempt continues from %+v", past.Earlier.Entries)
	}
}

// The checkpoint of an earlier, interrupted run stays if the failed attempt stored none.
func TestRetryKeepsWhatWasInherited(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	h := b.Start()
	expect.OK(t, h.Requeue(b.Ctx, "drain", session.Entry{Role: session.RoleAssistant, Text: "half"}))
	h = b.Start()
	expect.OK(t, h.Retry(b.Ctx, errors.New("flaky"), 0, 0))
	past, err := b.Start().History(b.Ctx)
	expect.OK(t, err)
	if past.Earlier == nil || past.Earlier.Entries[0].Text != "half" {
		t.Errorf("inherited: %+v", past.Earlier)
	}
}

// A message that fails and is rerun, however often, does not become too long to be read: its task
// has the last failure only, and none while it is rerun.
func TestTaskDoesNotGrowWithFailures(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Enqueue("a", asynq.Unique(time.Hour))
	size := func() int64 { return b.Redis.HStrLen(b.Ctx, b.Keys.Task(b.Task("a")), "msg").Val() }
	fresh, long := size(), strings.Repeat("x", 1<<20)
	for range 30 {
		for range 3 {
			expect.OK(t, b.Start().Retry(b.Ctx, errors.New(long), 0, 0))
		}
		_, err := b.Start().Finish(b.Ctx, protocol.End{Status: session.StatusFailed, Error: long})
		expect.OK(t, err)
		info := inspect(b, "a")
		expect.Equal(t, "asynqmon: retried", info.Retried, 3)
		expect.Equal(t, "asynqmon: its error", info.LastErr, b.Outcome("a").Error)
		n, err := b.Client.Operate(actors.Key).Rerun(b.Ctx, admin.All)
		expect.OK(t, err)
		expect.Equal(t, "run again", n, 1)
		if n := size(); n > fresh {
			t.Fatalf("the task has %d bytes, it had %d", n, fresh)
		}
		info = inspect(b, "a")
		expect.Equal(t, "asynqmon: retried, when it is run again", info.Retried, 0)
		expect.Equal(t, "asynqmon: its error, when it is run again", info.LastErr, "")
	}
	h := b.Start()
	expect.Equal(t, "text", h.Turn().Message.Text, "a")
	expect.Equal(t, "attempt", h.Turn().Attempt, 1)
}
