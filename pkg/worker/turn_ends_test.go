package worker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"turnstile"

	"github.com/hibiken/asynq"

	sq "turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/admin"
	"turnstile/pkg/agent"
	"turnstile/pkg/agent/echo"
	"turnstile/pkg/session"
	"turnstile/pkg/worker"
	"turnstile/test/acl"
	"turnstile/test/expect"
)

func TestRetryAtTheHeadOfTheLine(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newStage()
	const base = 200 * time.Millisecond
	r.worker(s, with(func(o *worker.Config) { o.RetryBackoff = base }))
	r.say("m1", "hello")
	first := s.next(t, "m1")
	r.say("m2", "behind")
	for attempt := 1; attempt <= 2; attempt++ {
		expect.Equal(t, "attempt", first.Attempt, attempt)
		first.fail(agent.Retryable(fmt.Errorf("failure %d", attempt)))
		first = s.next(t, "m1")
	}
	expect.Equal(t, "attempt", first.Attempt, 3)
	expect.Equal(t, "redelivered", first.Redelivered, false)
	first.reply("at last")
	s.next(t, "m2").reply("two")
	expect.Equal(t, "reply", r.ends("m1", session.StatusDone).Reply, "at last")
	r.ends("m2", session.StatusDone)
	expect.List(t, "turns", r.starts(r.key), "m1", "m1", "m1", "m2")
	expect.List(t, "transcript", r.transcript(r.key), "user hello", "assistant at last", "user behind", "assistant two")

	// Each wait is as long as its event says, and doubles.
	var retries, starts []session.Event
	for _, e := range r.events(r.key) {
		switch e.Type {
		case session.EventTurnRetry:
			retries = append(retries, e)
		case session.EventTurnStarted:
			starts = append(starts, e)
		}
	}
	expect.Equal(t, "retries", len(retries), 2)
	for i, e := range retries {
		wait, usual := time.Duration(e.RetryIn), base<<i
		if wait < usual*3/4-time.Millisecond || wait > usual*5/4 {
			t.Errorf("wait %d is %s, want %s give or take a quarter", i+1, wait, usual)
		}
		if waited := starts[i+1].At.Sub(e.At); waited < wait {
			t.Errorf("the next attempt came after %s, want %s", waited, wait)
		}
		expect.Equal(t, "the error in the event", e.Why(), fmt.Sprintf("failure %d", i+1))
	}
}

// An agent's error may contain anything: lines of its stderr, paths, secrets. Users get a sentence
// and a code, operators get the error as it is.
func TestErrorsForUsers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		run         func() error
		code, error string
		detail      string
	}{
		"error": {func() error { return errors.New("exit status 1: key=hunter2") }, session.CodeAgentFailed, "the agent failed", "exit status 1: key=hunter2"},
		"told": {func() error { return agent.ForUser(errors.New("key=hunter2"), "the conversation is too long") }, session.CodeAgentFailed,
			"the conversation is too long", "key=hunter2"},
		"panic":   {func() error { panic("hunter2") }, session.CodeInternal, "an internal error ended the turn", "the agent panicked: hunter2"},
		"timeout": {nil, session.CodeTimeout, "the agent took too long", "the agent took too long: ended after 100ms: killed, hunter2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.worker(agent.Func(func(ctx context.Context, _ *agent.Turn) (agent.Result, error) {
				if c.run != nil {
					return agent.Result{}, c.run()
				}
				<-ctx.Done()
				return agent.Result{}, fmt.Errorf("%w: killed, hunter2", context.Cause(ctx))
			}), with(func(o *worker.Config) { o.AgentTimeout = time.Minute }), with(func(o *worker.Config) {
				if c.run == nil {
					o.AgentTimeout = 100 * time.Millisecond
				}
			}))
			r.say("m1", "hello")
			o := r.ends("m1", session.StatusFailed)
			expect.List(t, "code, error, detail", []string{o.Code, o.Error, o.Detail}, c.code, c.error, c.detail)
			for _, e := range r.events(r.key) {
				if strings.Contains(e.Error, "hunter2") {
					t.Errorf("the event %s has the error %q", e.Type, e.Error)
				}
			}
			expect.Equal(t, "the reason in the archive", r.archivedAs("m1"), c.detail)
		})
	}
}

// The error of an attempt that is repeated is for operators, too.
func TestErrorsOfRetriesForUsers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.worker(echo.New())
	r.say("m1", "fail=retry:1 hello")
	r.ends("m1", session.StatusDone)
	for _, e := range r.events(r.key) {
		if e.Type == session.EventTurnRetry {
			expect.List(t, "code, error", []string{e.Code, e.Error}, session.CodeAgentFailed, "the agent failed")
			if !strings.Contains(e.Detail, "told to fail") {
				t.Errorf("the detail is %q", e.Detail)
			}
			return
		}
	}
	t.Error("no retry")
}

func TestArchivedAfterMaxAttempts(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.worker(echo.New(), with(func(o *worker.Config) { o.MaxAttempts = 2 }))
	r.say("m1", "fail=retry hello")
	r.say("m2", "on")
	o := r.ends("m1", session.StatusFailed)
	expect.Equal(t, "error", o.Why(), "echo: told to fail, may be tried again")
	r.archivedAs("m1")
	r.ends("m2", session.StatusDone)
	expect.List(t, "turns", r.starts(r.key), "m1", "m1", "m2")
	task, err := asynq.NewInspectorFromRedisClient(r.rdb).GetTaskInfo(rediskey.Queue(r.key), rediskey.TaskID(r.key, "m1"))
	expect.OK(t, err)
	expect.Equal(t, "asynq's state", task.State, asynq.TaskStateArchived)
	expect.Equal(t, "asynq's error", task.LastErr, o.Why())
	expect.Equal(t, "asynq's retries", task.Retried, 1)
}

func TestFinalFailureIsNotRetried(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.worker(echo.New())
	r.say("m1", "fail=final hello")
	r.say("m2", "on")
	r.ends("m1", session.StatusFailed)
	r.ends("m2", session.StatusDone)
	expect.List(t, "turns", r.starts(r.key), "m1", "m2")
}

// All workers hear of the cancel.
func TestInspectorCancelStopsThatTurnOnly(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newStage()
	for range 2 {
		r.worker(s)
	}
	r.say("m1", "hello")
	a := s.next(t, "m1")
	other := r.key + "-other"
	r.send(other, turnstile.Message{ID: "m1", Text: "hello"})
	b := s.next(t, "m1")
	r.say("m2", "behind")
	r.press(rediskey.TaskID(r.key, "m1"))
	if err := a.cause(t); !errors.Is(err, sq.ErrStopRequested) {
		t.Errorf("the turn ended with %v", err)
	}
	expect.Equal(t, "error", r.ends("m1", session.StatusStopped).Error, "stopped by user")
	s.next(t, "m2").reply("two")
	r.ends("m2", session.StatusDone)
	if b.ctx.Err() != nil {
		t.Errorf("the other session's turn ended: %v", context.Cause(b.ctx))
	}
	b.reply("ok")
	expect.Equal(t, "cancels of waiting turns", r.rdb.LLen(r.ctx, r.k.Audit()).Val(), 0)
	expect.Equal(t, "the other session's turn", r.outcomeIn(other, "m1").Status, session.StatusDone)
}

func TestInterruptMode(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newStage()
	r.worker(s)
	r.say("m1", "hello")
	a := s.next(t, "m1")
	r.say("m2", "behind")
	a.text("half a rep")
	a.Emit(agent.Event{Type: session.EventToolStart, Name: "search", CallID: "c1"})
	receipt := r.say("m3", "now!", session.ModeInterrupt)
	expect.Equal(t, "position", receipt.Position, 2)
	if err := a.cause(t); !errors.Is(err, sq.ErrInterruptRequested) {
		t.Errorf("the turn ended with %v", err)
	}
	r.ends("m1", session.StatusInterrupted)
	b := s.next(t, "m3")
	texts := make([]string, 0, 4)
	for _, e := range b.History {
		texts = append(texts, fmt.Sprint(e.Role, " ", e.Text, e.Interrupted))
	}
	expect.List(t, "the next turn's history", texts, "user hellofalse", "assistant half a repfalse", "tool true")
	b.reply("three")
	s.next(t, "m2").reply("two")
	r.ends("m2", session.StatusDone)
	r.ends("m3", session.StatusDone)
	expect.List(t, "transcript", r.transcript(r.key),
		"user hello", "assistant half a rep", "tool search (interrupted)", "user now!", "assistant three", "user behind", "assistant two")
	expect.Equal(t, "dead letters", r.info().DeadLetters, 0)
}

func TestStop(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newStage()
	r.worker(s)
	r.say("m1", "hello")
	a := s.next(t, "m1")
	a.text("half")
	for i := range 5 {
		r.say(fmt.Sprintf("f%d", i), "behind")
	}
	receipt := r.say("", "/stop")
	if !strings.Contains(receipt.Reply, "Stopping the running turn. 5 waiting") {
		t.Errorf("/stop returned %q", receipt.Reply)
	}
	if err := a.cause(t); !errors.Is(err, sq.ErrStopRequested) {
		t.Errorf("the turn ended with %v", err)
	}
	expect.Equal(t, "reply so far", r.ends("m1", session.StatusStopped).Reply, "half")
	expect.Equal(t, "reason", r.archivedAs("m1"), "stopped by user")
	for i := range 5 {
		id := fmt.Sprintf("f%d", i)
		r.ends(id, session.StatusStopped)
		expect.Equal(t, "reason", r.archivedAs(id), "stopped by user")
	}
	r.free("after the stop")
	list, err := admin.NewClient(acl.Client(t, acl.Operator)).Session(r.key).FollowUps(r.ctx)
	expect.OK(t, err)
	expect.Equal(t, "follow-ups", len(list), 0)
	r.say("m2", "on")
	s.next(t, "m2").reply("ok")
	r.ends("m2", session.StatusDone)
}

// The signal is lost: the renewal has the request, too.
func TestStopArrivesWithTheRenewal(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newStage()
	r.worker(s, sentinelTTL(expect.Lease(time.Second)))
	r.say("m1", "hello")
	a := s.next(t, "m1")
	expect.OK(t, r.rdb.HSet(r.ctx, r.k.Run(), "stop", a.Fence).Err())
	if err := a.cause(t); !errors.Is(err, sq.ErrStopRequested) {
		t.Errorf("the turn ended with %v", err)
	}
	r.ends("m1", session.StatusStopped)
}

func TestB83_RunTimeout(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.worker(echo.New(), with(func(o *worker.Config) { o.AgentTimeout = 100 * time.Millisecond }))
	r.say("m1", "sleep=1h hello")
	r.say("m2", "on")
	r.say("m3", "and on")
	o := r.ends("m1", session.StatusFailed)
	expect.Equal(t, "error", o.Why(), "the agent took too long: ended after 100ms")
	r.archivedAs("m1")
	r.ends("m2", session.StatusDone)
	r.ends("m3", session.StatusDone)
	expect.List(t, "turns", r.starts(r.key), "m1", "m2", "m3")
}
