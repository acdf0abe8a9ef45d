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
	"turnstile/internal/chat/receipt"
	"turnstile/internal/protocol"
	"turnstile/internal/protocol/lease"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/admin"
	"turnstile/pkg/resume"
	"turnstile/pkg/session"
	"turnstile/test/acl"
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

// A wait for a provider is neither an attempt nor an interruption. It is counted for the turn, also after its worker's
// death, and not for the next one.
func TestWaitsForAProviderAreCounted(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.SayAll("now", "next")
	throttled := func(h *protocol.Claim, times int) {
		t.Helper()
		turn := h.Turn()
		if turn.Message.ID != "now" || turn.Throttled != times || turn.Attempt != 1 || turn.Redelivered != 0 && times < 2 {
			t.Errorf("the turn: %+v", turn)
		}
	}
	for times := range 2 {
		h := b.Start()
		throttled(h, times)
		expect.OK(t, h.Park(b.Ctx, protocol.Parking{Throttled: true}))
	}
	throttled(b.Start(), 2)
	b.Redis.Del(b.Ctx, b.Keys.Sentinel()) // its worker dies
	h := b.Start()
	throttled(h, 2)
	expect.Equal(t, "interruptions", b.Redis.HGet(b.Ctx, b.Keys.Resume(), "interruptions").Val(), "1")
	expect.Equal(t, "the next one runs under the same claim", b.Finish(h), true)
	expect.Equal(t, "waits of the next turn", h.Turn().Throttled, 0)
	expect.OK(t, h.Park(b.Ctx, protocol.Parking{Interrupted: "drain"}))
	expect.Equal(t, "waits of its next run", b.Start().Turn().Throttled, 0)
}

// The end of a turn without an owner is requested as that of a running one, and a worker ends it at once, with what it
// has done.
func TestTurnWithoutAnOwnerIsEnded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ask    func(b *actors.Bench) error
		status session.Status
		kept   bool // its work is in the transcript
		next   string
	}{
		"stop":      {func(b *actors.Bench) error { _, err := b.Chat().Stop(b.Ctx); return err }, session.StatusStopped, true, ""},
		"cancel":    {func(b *actors.Bench) error { return b.Chat().CancelTurn(b.Ctx, "now") }, session.StatusStopped, true, "next"},
		"interrupt": {func(b *actors.Bench) error { b.Say("new", session.ModeInterrupt); return nil }, session.StatusInterrupted, true, "new"},
		"rollback":  {func(b *actors.Bench) error { b.Say("new", session.ModeRollback); return nil }, session.StatusInterrupted, false, "new"},
	} {
		for how, leave := range map[string]func(*actors.Bench){
			"parked": func(b *actors.Bench) { parked(b, time.Hour) }, "dead": died,
			"in doubt": func(b *actors.Bench) {
				died(b)
				expect.OK(b, b.Redis.Set(b.Ctx, b.Keys.Sentinel(), "in doubt", time.Hour).Err())
			},
		} {
			t.Run(name+" of one "+how, func(t *testing.T) {
				t.Parallel()
				b := actors.NewBench(t)
				leave(b)
				b.Pop()
				expect.OK(t, c.ask(b))
				if b.DoubtEnds(); how != "in doubt" {
					expect.Equal(t, "a worker is woken", b.IsIn(rediskey.Ready, actors.Key), true)
				}
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
}

// died leaves a turn, "now", as a worker that died after a step.
func died(b *actors.Bench) {
	b.Helper()
	b.SayAll("now", "next")
	stepped(b, b.Start(), 1)
	b.Die()
}

// Before a worker has found a dead owner's turn, it is one that goes on: a new message is refused, or becomes part of it.
func TestMessagesBeforeADeathIsFound(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	died(b)
	_, err := b.Chat().Send(b.Ctx, turnstile.Message{ID: "refused", Text: "x", Mode: session.ModeReject})
	if !errors.Is(err, session.ErrBusy) {
		t.Errorf("reject: %v", err)
	}
	b.Say("steer", session.ModeSteer)
	expect.Equal(t, "a worker is woken", b.IsIn(rediskey.Ready, actors.Key), true)
	h := b.Start()
	turn := h.Turn()
	expect.Equal(t, "goes on", turn.Message.ID, "now")
	steers, err := h.Steer(b.Ctx)
	expect.OK(t, err)
	expect.Equal(t, "steers", len(steers), 1)
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

// /new with another agent ends a turn that waits without a worker, by any worker.
func TestParkedTurnOfAnotherAgent(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	parked(b, time.Hour)
	_, err := b.Chat().NewTranscript(b.Ctx, turnstile.TranscriptConfig{Agent: "coder"})
	expect.OK(t, err)
	b.Worker = actors.NewWorker(t, b.Redis, "coder", func(c *protocol.Config) { c.Agents = []string{"coder"} })
	h := b.Start()
	expect.Equal(t, "its end", b.Outcome("now").Status, session.StatusInterrupted)
	expect.Equal(t, "then", h.Turn().Message.ID+" "+h.Turn().Agent, "next coder")
}

// /new lets a turn that waits go on in its conversation. The next one has the new conversation.
func TestParkedTurnGoesOnAfterNew(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	parked(b, 0)
	old := b.Info().TranscriptID
	sid, err := b.Chat().NewTranscript(b.Ctx, turnstile.TranscriptConfig{})
	expect.OK(t, err)
	h := b.Start()
	expect.Equal(t, "transcript", h.Turn().TranscriptID, old)
	expect.Equal(t, "carries", h.Turn().Carries, protocol.CarriesSteps)
	expect.Equal(t, "the session's", b.Info().TranscriptID, sid)
	b.Finish(h)
	expect.Equal(t, "transcript of the next", h.Turn().TranscriptID, sid)
}

// A long error, as an agent's, is truncated. Retries do not make the task grow by more than that.
func TestLongErrors(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	long := errors.New(strings.Repeat("ä", 1<<20))
	for range 3 {
		h := b.Start()
		expect.OK(t, h.Park(b.Ctx, protocol.Parking{Failed: long}))
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

// The next attempt gets what the failed one has done, and what earlier runs have.
func TestRetryKeepsTheLog(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	h := b.Start()
	expect.OK(t, actors.Checkpoint(b.Ctx, h, []session.Entry{{Role: session.RoleAssistant, Text: "half"}}))
	for _, why := range []protocol.Parking{{Interrupted: "drain"}, {Failed: errors.New("flaky")}} {
		expect.OK(t, h.Park(b.Ctx, why))
		h = b.Start()
		past, err := h.History(b.Ctx)
		expect.OK(t, err)
		if past.Earlier == nil || past.Earlier.Entries[0].Text != "half" {
			t.Errorf("after %+v: %+v", why, past.Earlier)
		}
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
			expect.OK(t, b.Start().Park(b.Ctx, protocol.Parking{Failed: errors.New(long)}))
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

// The marks that turns get. pkg/resume tests those from outside.

// cuts are the ways to interrupt a running turn. Each leaves the session to the next claim. A death
// has its own reason.
var cuts = map[string]func(b *actors.Bench, h *protocol.Claim, reason string){
	"marked, given back": func(b *actors.Bench, h *protocol.Claim, reason string) {
		mark(b, h, reason)
		expect.OK(b, h.Park(b.Ctx, protocol.Parking{Interrupted: "another reason"}))
	},
	"given back": func(b *actors.Bench, h *protocol.Claim, reason string) {
		expect.OK(b, h.Park(b.Ctx, protocol.Parking{Interrupted: reason}))
	},
	"marked, dead": func(b *actors.Bench, h *protocol.Claim, reason string) { mark(b, h, reason); b.Die() },
	"dead":         func(b *actors.Bench, _ *protocol.Claim, _ string) { b.Die() },
}

// eachInterruption runs a test for each of them.
func eachInterruption(t *testing.T, test func(t *testing.T, name string, cut func(*actors.Bench, *protocol.Claim, string))) {
	t.Helper()
	for name, cut := range cuts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, name, cut)
		})
	}
}

func clockOf(b *actors.Bench) time.Time {
	b.Helper()
	now, err := b.Redis.Time(b.Ctx).Result()
	expect.OK(b, err)
	return now
}

// interruptedOnce is the resume record after one interrupted turn, without the time.
func interruptedOnce(h *protocol.Claim, reason string) resume.Record {
	return resume.Record{Pending: true, Reason: reason, Interruptions: 1, Fence: h.Turn().Fence}
}

func TestB15_InterruptedTurnsAreMarked(t *testing.T) {
	t.Parallel()
	eachInterruption(t, func(t *testing.T, name string, cut func(*actors.Bench, *protocol.Claim, string)) {
		b := actors.NewBench(t)
		b.Say("a")
		h, reason := b.Start(), resume.ReasonShutdown
		before := clockOf(b).Truncate(time.Millisecond)
		cut(b, h, reason)
		turn := b.Claim().Turn()
		if name == "dead" {
			reason = resume.ReasonCrash
		}
		got := resumeRecord(b)
		if after := clockOf(b); got.MarkedAt.Before(before) || got.MarkedAt.After(after) {
			t.Errorf("marked at %s, that was from %s to %s", got.MarkedAt, before, after)
		}
		got.MarkedAt, got.Age = time.Time{}, 0
		expect.Equal(t, "record", got, interruptedOnce(h, reason))
		expect.Equal(t, "the next turn's resume reason", turn.Resume, reason)
	})
	t.Run("without a reason", func(t *testing.T) {
		t.Parallel()
		b := actors.NewBench(t)
		b.Say("a")
		mark(b, b.Start(), "")
		b.Die()
		expect.Equal(t, "the next turn's resume reason", b.Claim().Turn().Resume, resume.ReasonRestart)
	})
}

// The first reason stays: the end of a turn after its mark is not a second interruption.
func TestB16_ReasonOfOnesOwn(t *testing.T) {
	t.Parallel()
	eachInterruption(t, func(t *testing.T, name string, cut func(*actors.Bench, *protocol.Claim, string)) {
		b := actors.NewBench(t)
		b.Say("a")
		h, reason := b.Start(), "it rained"
		cut(b, h, reason)
		if name == "dead" {
			reason = resume.ReasonCrash
		}
		expect.Equal(t, "the next turn's resume reason", b.Claim().Turn().Resume, reason)
		expect.Equal(t, "reason", resumeRecord(b).Reason, reason)
	})
}

// A session that was erased under a worker stays unknown.
func TestB17_UnknownSessionGetsNoMark(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	h := b.Start()
	b.Die()
	expect.OK(t, b.Client.Operate(actors.Key).Erase(b.Ctx))
	before := b.Dump()
	if m := b.Worker.Mark(b.Ctx, []*protocol.Claim{h}, resume.ReasonShutdown)[0]; !errors.Is(m.Err, lease.ErrLost) || m.Starting {
		t.Errorf("mark: %+v", m)
	}
	actors.Same(t, "a mark", before, b.Dump())
	if err := h.Park(b.Ctx, protocol.Parking{Interrupted: resume.ReasonShutdown}); !errors.Is(err, lease.ErrLost) {
		t.Errorf("requeue: %v", err)
	}
	b.ClaimNothing("the session is unknown")
	actors.Same(t, "a requeue and a claim", before, b.Dump())
}

// A suspended session stays suspended, whatever interrupts its turn, and the next turn begins a new
// transcript.
func TestB18_SuspensionOutlastsTheInterruption(t *testing.T) {
	t.Parallel()
	for before, marked := range map[string]bool{"unmarked": false, "marked": true} {
		t.Run(before, func(t *testing.T) {
			t.Parallel()
			eachInterruption(t, func(t *testing.T, name string, cut func(*actors.Bench, *protocol.Claim, string)) {
				b := actors.NewBench(t)
				b.Say("a")
				h := b.Start()
				if marked { // the turn before
					b.Die()
					h = b.Start()
				}
				_, err := resume.Suspend(b.Ctx, b.Redis, actors.Key)
				expect.OK(t, err)
				was := resumeFields(b)
				cut(b, h, resume.ReasonShutdown)
				expect.Equal(t, "record", resumeFields(b), was)
				turn := b.Claim().Turn()
				expect.Equal(t, "message", turn.Message.ID, "a")
				expect.Equal(t, "reset", turn.Reset, "suspended")
				expect.Equal(t, "the next turn's resume reason", turn.Resume, "")
				if turn.TranscriptID == h.Turn().TranscriptID {
					t.Error("the session id is the old one")
				}
			})
		})
	}
}

// resumeFields is the whole record as it is stored.
func resumeFields(b *actors.Bench) string {
	b.Helper()
	return actors.Content(b.Ctx, b.Redis, b.Keys.Resume(), "hash")
}

func TestB19_MarkOutlivesRedis(t *testing.T) {
	t.Parallel()
	eachInterruption(t, func(t *testing.T, name string, cut func(*actors.Bench, *protocol.Claim, string)) {
		server := acl.Server(t)
		b := actors.BenchOn(t, server.Client())
		b.Say("a")
		h := b.Start()
		cut(b, h, resume.ReasonShutdown)
		why := resume.ReasonShutdown
		if name == "dead" {
			b.Claim() // it makes the mark
			b.Die()
			why = resume.ReasonCrash
		}
		was := resumeFields(b)
		if !strings.Contains(was, "marked_at") {
			t.Fatalf("there is no mark: %s", was)
		}
		for _, end := range []func(){server.Stop, server.Kill} {
			end()
			server.Start()
			expect.Equal(t, "record", resumeFields(b), was)
		}
		b.Worker = actors.NewWorker(t, b.Redis, "two")
		turn := b.Claim().Turn()
		expect.Equal(t, "session id", turn.TranscriptID, h.Turn().TranscriptID)
		expect.Equal(t, "the next turn's resume reason", turn.Resume, why)
	})
}

// clears are the ways in which a mark ends without a finished turn: with its transcript.
var clears = map[string]func(b *actors.Bench){
	"a new conversation": func(b *actors.Bench) {
		b.Replies("/new", "new conversation")
		if b.Info().Phase == session.PhaseParked { // this turn goes on in the old one
			_, err := b.Start().Finish(b.Ctx, protocol.End{Status: session.StatusFailed, Error: "no", Release: true})
			expect.OK(b, err)
		}
	},
	"a turn that ends in a new one": func(b *actors.Bench) {
		h := b.Start()
		b.Replies("/new", "new conversation")
		_, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusFailed, Error: "no", Release: true})
		expect.OK(b, err)
	},
}

func TestB20_MarkGoesWithItsConversation(t *testing.T) {
	t.Parallel()
	for name, clears := range clears {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			b.SayAll("a", "b")
			h := b.Start()
			old := h.Turn()
			mark(b, h, resume.ReasonShutdown)
			expect.OK(t, h.Park(b.Ctx, protocol.Parking{Interrupted: resume.ReasonShutdown}))
			expect.Equal(t, "marked", resumeRecord(b).Pending, true)
			clears(b)
			for _, field := range []string{"pending", "reason", "marked_at"} {
				expect.Equal(t, field, b.Redis.HExists(b.Ctx, b.Keys.Resume(), field).Val(), false)
			}
			expect.Equal(t, "what is not the mark's", resumeRecord(b), resume.Record{Interruptions: 1, Fence: old.Fence})
			turn := b.Claim().Turn()
			expect.Equal(t, "the next turn's resume reason", turn.Resume, "")
			expect.Equal(t, "reset", turn.Reset, "")
			if turn.TranscriptID == old.TranscriptID {
				t.Error("the session id is the old one")
			}
		})
	}
	t.Run("a finished turn", func(t *testing.T) {
		t.Parallel()
		b := actors.NewBench(t)
		b.Say("a")
		expect.OK(t, b.Start().Park(b.Ctx, protocol.Parking{Interrupted: resume.ReasonShutdown}))
		b.Finish(b.Start())
		expect.Equal(t, "keys", b.Redis.Exists(b.Ctx, b.Keys.Resume()).Val(), 0)
	})
}

func TestB21_NoMarkToGo(t *testing.T) {
	t.Parallel()
	for name, clears := range clears {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			b.Say("a")
			expect.OK(t, b.Redis.HSet(b.Ctx, b.Keys.Resume(), "interruptions", 2, "fence", 7).Err())
			was := resumeFields(b)
			clears(b)
			expect.Equal(t, "record", resumeFields(b), was)
		})
		t.Run(name+", never interrupted", func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			b.Say("a")
			clears(b)
			expect.Equal(t, "keys", b.Redis.Exists(b.Ctx, b.Keys.Resume()).Val(), 0)
		})
	}
	t.Run("of an unknown session", func(t *testing.T) {
		t.Parallel()
		b := actors.NewBench(t)
		b.Replies("/new", "new conversation")
		expect.Equal(t, "keys", b.Redis.Exists(b.Ctx, b.Keys.Resume()).Val(), 0)
		_, err := receipt.Input(b.Ctx, b.Client.Session(actors.Key), turnstile.Message{ID: "a", Text: "a"})
		expect.OK(t, err)
		expect.Equal(t, "the first turn's resume reason", b.Claim().Turn().Resume, "")
	})
}

// A drain does not interrupt a turn that was requested to end: the next message's note reports no
// interruption.
func TestMarkOfATurnThatIsToEnd(t *testing.T) {
	t.Parallel()
	for name, ask := range map[string]func(b *actors.Bench){
		"stop":      func(b *actors.Bench) { _, err := b.Client.Session(actors.Key).Stop(b.Ctx); expect.OK(b, err) },
		"interrupt": func(b *actors.Bench) { b.Say("i", session.ModeInterrupt) },
		"rollback":  func(b *actors.Bench) { b.Say("i", session.ModeRollback) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			b.Say("a")
			h := b.Start()
			ask(b)
			mark(b, h, "shutdown_timeout")
			if err := h.Park(b.Ctx, protocol.Parking{Interrupted: "shutdown_timeout"}); err == nil {
				t.Error("the turn was given back")
			}
			_, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusStopped, Release: true})
			expect.OK(t, err)
			b.Say("next")
			expect.Equal(t, "resume reason of the next turn", b.Claim().Turn().Resume, "")
		})
	}
}
