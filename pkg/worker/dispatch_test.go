package worker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"

	"turnstile"
	"turnstile/internal/chat/receipt"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/wire"
	"turnstile/pkg/agent"
	"turnstile/pkg/agent/echo"
	"turnstile/pkg/session"
	"turnstile/pkg/worker"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// While the worker waits for a session it holds no slot. If its only slot is taken when a session
// arrives, the session goes back into the ready index at once: any worker may claim it.
func TestASessionWithoutASlotIsPutBack(t *testing.T) {
	t.Parallel()
	r, faults := newRig(t), &redistest.Faults{}
	other := r.key + ".other"
	popped := faults.GateReply(redistest.Named("bzpopmin"))
	warm := newWarmStage()
	r.say("m1", "hi")
	w := r.worker(warm, warmAgents(2), slots(1), faulty(faults), with(func(o *worker.Config) { o.SweepInterval = time.Hour }))
	warm.nextBy(t, "m1", 1).reply("ok")
	r.ends("m1", session.StatusDone)
	expect.Soon(t, "a warm agent", func() bool { _, ok := w.WarmAgent(r.key); return ok })
	expect.Soon(t, "the worker to wait for a session", func() bool { return faults.CountNamed("bzpopmin") > 0 })
	r.send(other, turnstile.Message{ID: "o1", Text: "hi"})
	expect.Received(t, "the session", popped.Arrived())
	expect.OK(t, r.rdb.ZRem(r.ctx, rediskey.Owned, other).Err()) // else reap finds it
	r.say("m2", "hi")
	second := warm.nextBy(t, "m2", 1) // by the signal, before the pop has its reply
	popped.Release()
	expect.Soon(t, "the other session to be ready again", func() bool {
		return r.rdb.ZScore(r.ctx, rediskey.Ready, other).Err() == nil
	})
	second.reply("ok")
	warm.nextBy(t, "o1", 2).reply("ok")
}

// A drain waits for claims in flight: their sessions are the worker's, which must give them back.
func TestDrainWaitsForClaimsInFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		claimed, drained := make(chan struct{}), make(chan struct{})
		go func() {
			worker.DrainDuring(func() { <-claimed })
			close(drained)
		}()
		synctest.Wait()
		select {
		case <-drained:
			t.Error("the drain ended during a claim")
		default:
		}
		close(claimed)
		<-drained
	})
}

// foreignTask enqueues a task of another program in the session's queue.
func (r *rig) foreignTask(id, kind string, payload []byte) {
	r.Helper()
	_, err := asynq.NewClientFromRedisClient(r.rdb).EnqueueContext(r.ctx, asynq.NewTask(kind, payload),
		asynq.Queue(rediskey.Queue(r.key)), asynq.TaskID(rediskey.TaskID(r.key, id)))
	expect.OK(r, err)
}

// awaitAge waits until a message is older than d by Redis' clock.
func (r *rig) awaitAge(id string, d time.Duration) {
	r.Helper()
	expect.Soon(r, "the message to be old", func() bool {
		seen, err := r.rdb.HGet(r.ctx, r.k.Task(rediskey.TaskID(r.key, id)), "seen").Int64()
		expect.OK(r, err)
		return r.rdb.Time(r.ctx).Val().UnixMilli() > seen+d.Milliseconds()
	})
}

func TestB04_FreedOnEarlyReturns(t *testing.T) {
	t.Parallel()
	const limit = 20 * time.Millisecond
	for name, c := range map[string]struct {
		put    func(r *rig)
		status session.Status
		want   string
		change change
	}{
		"expired": {func(r *rig) {
			r.send(r.key, turnstile.Message{ID: "m1", Text: "hello", ExpiresIn: limit})
			r.awaitAge("m1", limit)
		}, session.StatusExpired, "expired: it waited", nil},
		"too old": {func(r *rig) {
			r.say("m1", "hello")
			r.awaitAge("m1", 300*time.Millisecond)
		}, session.StatusExpired, "at most 300ms was allowed", with(func(o *worker.Config) { o.MessageMaxAge = 300 * time.Millisecond })},
		"undecodable": {func(r *rig) { r.foreignTask("m1", wire.TaskType, []byte("{nonsense")) }, session.StatusFailed, "not a message in JSON", nil},
		"no text":     {func(r *rig) { r.foreignTask("m1", wire.TaskType, []byte(`{"v":1,"text":" "}`)) }, session.StatusFailed, "its text is empty", nil},
		"other version": {func(r *rig) { r.foreignTask("m1", wire.TaskType, []byte(`{"v":9,"text":"x"}`)) },
			session.StatusFailed, "version 9", nil},
		"wrong type": {func(r *rig) { r.foreignTask("m1", "mail:send", []byte(`{}`)) }, session.StatusFailed, `task type "mail:send"`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			s := newStage()
			c.put(r)
			changes := []change{}
			if c.change != nil {
				changes = append(changes, c.change)
			}
			r.worker(s, changes...)
			o := r.ends("m1", c.status)
			if !strings.Contains(o.Why(), c.want) {
				t.Errorf("error %q, want something with %q", o.Why(), c.want)
			}
			if c.status == session.StatusFailed {
				expect.Equal(t, "what its users learn", o.Error+", "+o.Code, "the message is invalid, "+session.CodeInvalidMessage)
			}
			r.free("after the early return")
			if why := r.archivedAs("m1"); !strings.Contains(why, c.want) {
				t.Errorf("the archive says %q", why)
			}
			s.empty(t)
			r.say("m2", "on")
			s.next(t, "m2").reply("ok")
			r.ends("m2", session.StatusDone)
			expect.List(t, "transcript", r.transcript(r.key), "user on", "assistant ok")
		})
	}
}

// No worker ran for a while: messages that are too old by then become dead letters with a reason.
func TestB81_StaleMessages(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const limit = time.Minute
	for i := range 5 {
		id := fmt.Sprint("old", i)
		r.say(id, "hello")
		expect.OK(t, r.rdb.HIncrBy(r.ctx, r.k.Task(rediskey.TaskID(r.key, id)), "seen", -2*limit.Milliseconds()).Err())
	}
	r.say("fresh", "hello")
	r.worker(echo.New(), with(func(o *worker.Config) { o.MessageMaxAge = limit }))
	expect.Equal(t, "reply", r.ends("fresh", session.StatusDone).Reply, "echo: hello")
	for i := range 5 {
		id := fmt.Sprint("old", i)
		r.ends(id, session.StatusExpired)
		if why := r.archivedAs(id); !strings.Contains(why, "at most 1m0s was allowed") {
			t.Errorf("the archive says %q of %s", why, id)
		}
	}
	expect.List(t, "transcript", r.transcript(r.key), "user hello", "assistant echo: hello")
	told := 0
	for _, e := range r.events(r.key) {
		if e.Status == session.StatusExpired {
			told++
		}
	}
	expect.Equal(t, "events that say so", told, 5)
}

// A message that grows too old between two attempts expires only if no run of its turn has written anything.
func TestExpiryBetweenAttempts(t *testing.T) {
	t.Parallel()
	for text, status := range map[string]session.Status{"": session.StatusExpired, "half": session.StatusDone} {
		t.Run(string(status), func(t *testing.T) {
			t.Parallel()
			r, s := newRig(t), newStage()
			r.worker(s)
			r.send(r.key, turnstile.Message{ID: "m1", Text: "hello", ExpiresIn: time.Hour})
			a := s.next(t, "m1")
			if text != "" {
				a.text(text)
			}
			expect.OK(t, r.rdb.HIncrBy(r.ctx, r.k.Task(rediskey.TaskID(r.key, "m1")), "seen", -2*time.Hour.Milliseconds()).Err())
			a.fail(agent.Retryable(errors.New("no")))
			if status == session.StatusDone {
				s.next(t, "m1").reply("whole")
			}
			r.ends("m1", status)
			s.empty(t)
		})
	}
}

func TestB04_RefusedLeavesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newStage()
	r.worker(s)
	r.say("m1", "hello")
	a := s.next(t, "m1")
	token := r.token()
	told := r.say("m2", "busy?", session.ModeReject)
	expect.Equal(t, "status", told.Status, receipt.Refused)
	expect.Equal(t, "reason", told.Reason, "busy")
	expect.Equal(t, "sentinel", r.token(), token)
	a.reply("ok")
	r.ends("m1", session.StatusDone)
	r.free("after the turn")
	if _, _, err := actors.Result(r.ctx, r.client.Session(r.key), "m2"); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("the refused message is still known: %v", err)
	}
	s.empty(t)
}

// An error before the agent starts: the history cannot be read. It spends attempts.
func TestB68_EarlyErrorSurfaces(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newStage()
	w := r.worker(s, with(func(o *worker.Config) { o.MaxAttempts = 2 }))
	r.say("m1", "hello")
	s.next(t, "m1").reply("ok")
	r.ends("m1", session.StatusDone)
	expect.OK(t, r.rdb.RPush(r.ctx, r.k.State(), "of a wrong type").Err())

	r.say("m2", "hello again")
	o := r.ends("m2", session.StatusFailed)
	if !strings.Contains(o.Why(), "read the history of turn") || !strings.Contains(o.Why(), "WRONGTYPE") {
		t.Errorf("error %q", o.Why())
	}
	expect.List(t, "turns", r.starts(r.key), "m1", "m2", "m2")
	r.free("after the failure")
	s.empty(t)
	expect.OK(t, r.rdb.Del(r.ctx, r.k.State()).Err())
	r.say("m3", "on")
	s.next(t, "m3").reply("ok")
	r.ends("m3", session.StatusDone)
	expect.Soon(t, "the worker to be idle", func() bool { return w.Status().Running == 0 })
}

// The history cannot be read for a while: no agent has run, so no attempt is spent, even if there
// is only one.
func TestUnreadableHistorySpendsNoAttempt(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newStage()
	faults := &redistest.Faults{}
	r.worker(s, faulty(faults), with(func(o *worker.Config) { o.MaxAttempts = 1 }))
	r.say("m1", "hello")
	s.next(t, "m1").reply("ok")
	r.ends("m1", session.StatusDone)
	faults.LoseReply(history, 2)
	faults.FailBefore(history, 2, redistest.ReplyError("LOADING Redis is loading the dataset in memory"))
	r.say("m2", "hello again")
	a := s.next(t, "m2")
	expect.Equal(t, "attempt", a.Attempt, 1)
	expect.Equal(t, "redelivered", a.Redelivered, false)
	expect.List(t, "history", brief(a.History), "user hello", "assistant ok")
	a.reply("ok")
	r.ends("m2", session.StatusDone)
}

// An entry that cannot be read is shown as such, and stops no turn.
func TestBrokenEntry(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newStage()
	r.worker(s)
	r.say("m1", "hello")
	s.next(t, "m1").reply("ok")
	r.ends("m1", session.StatusDone)
	expect.OK(t, r.rdb.RPush(r.ctx, r.k.Transcript(r.info().TranscriptID), "{broken").Err())

	r.say("m2", "hello again")
	a := s.next(t, "m2")
	if last := a.History[2]; last.Role != session.RoleSystem || !strings.Contains(last.Text, "cannot be read") {
		t.Errorf("the broken entry: %+v", last)
	}
	a.reply("ok")
	r.ends("m2", session.StatusDone)
}

// The claim itself fails: no worker owns the session, and the message is still in the queue.
func TestB69_ClaimFails(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var f redistest.Faults
	f.FailBefore(claiming, 1, errors.New("no such luck"))
	w := r.worker(echo.New(), faulty(&f), sentinelTTL(expect.Lease(time.Second)))
	r.say("m1", "hello")
	r.ends("m1", session.StatusDone)
	expect.List(t, "turns", r.starts(r.key), "m1")
	expect.Soon(t, "the worker to be idle", func() bool { return w.Status().Running == 0 })
	r.free("after the turn")
}

// No agent is started if the lease ends before the claim's reply arrives.
func TestLateClaimStartsNoAgent(t *testing.T) {
	t.Parallel()
	for name, now := range map[string]bool{"immediate": true, "with a start": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			var f redistest.Faults
			gate := f.GateReply(claiming)
			s := newStage()
			var a agent.Agent = s
			if now {
				a = immediate{s.Run}
			}
			r.worker(a, faulty(&f), sentinelTTL(expect.Lease(time.Second)))
			r.say("m1", "hello")
			expect.Received(t, "the claim", gate.Arrived())
			first := r.info().Fence
			expect.Soon(t, "the sentinel's end", func() bool { return r.token() == "" })
			gate.Release()
			again := s.next(t, "m1")
			if again.Fence == first {
				t.Error("the agent was started under a lease that was over")
			}
			again.reply("ok")
			r.ends("m1", session.StatusDone)
			s.empty(t)
		})
	}
}

// A worker that failed to start can be drained, and does not hang.
func TestDrainAfterFailedStart(t *testing.T) {
	t.Parallel()
	server := redistest.StartServer(t)
	r := rigOn(t, server.URL(), server.Client())
	w := r.idle(echo.New())
	ctx, cancel := context.WithCancel(r.ctx)
	cancel()
	server.Pause() // or the worker might start
	err := w.Start(ctx)
	server.Resume()
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("Start under a context that is over: %v", err)
	}
	expect.Received(t, "the end of the drain", drain(w))
}
