package worker_test

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/chat/receipt"
	sq "turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/agent"
	"turnstile/pkg/agent/echo"
	"turnstile/pkg/agent/exec"
	"turnstile/pkg/session"
	"turnstile/pkg/worker"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// script matches the calls of one of internal/protocol's scripts.
func script(name string) redistest.Match {
	return func(cmd redis.Cmder) bool {
		args := cmd.Args()
		if !strings.HasPrefix(cmd.Name(), "eval") || len(args) < 2 {
			return false
		}
		sha, _ := args[1].(string)
		if cmd.Name() == "eval" { // the first call on a server sends the script's text
			sum := sha1.Sum([]byte(sha))
			sha = hex.EncodeToString(sum[:])
		}
		return sq.ScriptName(sha) == name
	}
}

var (
	claiming      = script("claim")
	promoting     = script("promote")
	renewing      = script("renew")
	checkpointing = script("journal")
	marking       = script("mark")
	parking       = script("park")
	surviving     = script("survive")
	finishing     = script("finish")
)

// history matches the reading of a transcript, which is before the agent's start.
var history = script("transcript_page")

func TestB01_SentinelFirst(t *testing.T) {
	t.Parallel()
	t.Run("immediate", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		seen := make(chan string, 1)
		r.worker(immediate{func(ctx context.Context, _ *agent.Turn) (agent.Result, error) {
			seen <- r.rdb.Get(ctx, r.k.Sentinel()).Val()
			return agent.Result{Text: "ok"}, nil
		}})
		r.say("m1", "hello")
		if expect.Received(t, "the agent", seen) == "" {
			t.Error("no sentinel while the agent ran")
		}
	})
	t.Run("before the history", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		var f redistest.Faults
		gate := f.Gate(history)
		s := newStage()
		r.worker(s, faulty(&f))
		r.say("m1", "hello")
		expect.Received(t, "the reading of the history", gate.Arrived())
		token := r.token()
		if token == "" {
			t.Error("the history is read before the sentinel is up")
		}
		expect.Equal(t, "phase", r.info().Phase, "starting")
		gate.Release()
		a := s.next(t, "m1")
		expect.Equal(t, "the sentinel while the agent runs", r.token(), token)
		a.reply("ok")
		r.ends("m1", session.StatusDone)
	})
}

func TestB02_FreedOnReturn(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.worker(echo.New())
	r.say("m1", "hello")
	o := r.ends("m1", session.StatusDone)
	r.free("after the turn")
	expect.Equal(t, "reply", o.Reply, "echo: hello")
	expect.List(t, "transcript", r.transcript(r.key), "user hello", "assistant echo: hello")
	expect.Equal(t, "phase", r.info().Phase, session.PhaseIdle)
}

func TestB03_FreedOnErrorAndPanic(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text, want string
		entries    []string
	}{
		"error": {"fail=final x", "echo: told to fail", []string{"user fail=final x (interrupted)"}},
		"panic": {"panic=7 x", "the agent panicked: echo: told to panic: 7", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			w := r.worker(echo.New())
			r.say("m1", c.text)
			o := r.ends("m1", session.StatusFailed)
			r.free("after the failure")
			expect.Equal(t, "the error that operators see", o.Why(), c.want)
			expect.Equal(t, "the reason in the archive", r.archivedAs("m1"), c.want)
			expect.List(t, "transcript", r.transcript(r.key), c.entries...)
			r.say("m2", "on")
			r.ends("m2", session.StatusDone)
			expect.Soon(t, "the worker to be idle", func() bool { return w.Status().Running == 0 })
		})
	}
}

func TestB06_RunningUnderTheSameToken(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var f redistest.Faults
	gate := f.Gate(promoting)
	s := newStage()
	r.worker(s, faulty(&f), sentinelTTL(time.Minute))
	r.say("m1", "hello")
	expect.Received(t, "promote", gate.Arrived())
	before := r.info()
	token := r.token()
	expect.Equal(t, "phase before", before.Phase, "starting")
	s.empty(t)
	gate.Release()
	a := s.next(t, "m1")
	after := r.info()
	expect.Equal(t, "phase after", after.Phase, "running")
	expect.Equal(t, "token", r.token(), token)
	expect.Equal(t, "fence", after.Fence, before.Fence)
	expect.Equal(t, "the agent's fence", a.Fence, before.Fence)
	r.say("m2", "now", session.ModeInterrupt)
	if err := a.cause(t); !errors.Is(err, sq.ErrInterruptRequested) {
		t.Errorf("the running agent ended with %v", err)
	}
	r.ends("m1", session.StatusInterrupted)
	s.next(t, "m2").reply("ok")
	r.ends("m2", session.StatusDone)
}

func TestB07_StartingIsNeverInterrupted(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var f redistest.Faults
	gate := f.Gate(history)
	s := newStage()
	r.worker(s, faulty(&f))
	r.say("m1", "hello")
	expect.Received(t, "the reading of the history", gate.Arrived())
	told := r.say("m2", "now", session.ModeInterrupt)
	expect.Equal(t, "status", told.Status, receipt.Queued)
	expect.Equal(t, "position", told.Position, 2)
	gate.Release()
	a := s.next(t, "m1")
	if err := a.ctx.Err(); err != nil {
		t.Errorf("the turn was interrupted: %v", context.Cause(a.ctx))
	}
	a.reply("one")
	r.ends("m1", session.StatusDone)
	s.next(t, "m2").reply("two")
	r.ends("m2", session.StatusDone)
}

func TestB08_CommandsTakeNoSentinel(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	command := func(text, want string) {
		t.Helper()
		told := r.say("", text)
		expect.Equal(t, text+": status", told.Status, receipt.Answered)
		if !strings.Contains(told.Reply, want) {
			t.Errorf("%s returned %q, want something with %q", text, told.Reply, want)
		}
	}
	command("/help", "/stop")
	command("/status", "Idle")
	if keys := r.rdb.Keys(r.ctx, "*").Val(); len(keys) > 0 {
		t.Errorf("commands to an idle session leave behind %q", keys)
	}
	s := newStage()
	r.worker(s)
	r.say("m1", "hello")
	a := s.next(t, "m1")
	token := r.token()
	command("/help", "/stop")
	command("/status", "A turn has been running")
	expect.Equal(t, "the sentinel", r.token(), token)
	expect.Equal(t, "waiting messages", r.info().Waiting, 0)
	a.reply("ok")
	r.ends("m1", session.StatusDone)
	r.free("after the turn")
	expect.List(t, "turns", r.starts(r.key), "m1")
}

func TestB09_AStopWhileStartingPreventsTheTurn(t *testing.T) {
	t.Parallel()
	for name, match := range map[string]redistest.Match{"history": history, "promote": promoting} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			var f redistest.Faults
			gate := f.Gate(match)
			s := newStage()
			r.worker(s, faulty(&f), sentinelTTL(time.Minute))
			r.say("m1", "hello")
			r.say("m2", "behind")
			expect.Received(t, "the start", gate.Arrived())
			told := r.say("", "/stop")
			expect.Equal(t, "status", told.Status, receipt.Answered)
			if !strings.Contains(told.Reply, "starting up") {
				t.Errorf("/stop returned %q", told.Reply)
			}
			gate.Release()
			expect.Equal(t, "error", r.ends("m1", session.StatusStopped).Error, "stopped by user")
			r.ends("m2", session.StatusStopped)
			expect.Soon(t, "the session to be free", func() bool { return r.token() == "" })
			s.empty(t)
			expect.Equal(t, "reason in the archive", r.archivedAs("m1"), "stopped by user")
			expect.Equal(t, "waiting messages", r.info().Waiting, 0)
		})
	}
}

func TestB10_StartingIsSkippedByTheDrain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var f redistest.Faults
	gate := f.Gate(history)
	s := newStage()
	w := r.worker(s, faulty(&f))
	r.say("m1", "hello")
	expect.Received(t, "the reading of the history", gate.Arrived())
	drained := drain(w)
	expect.Soon(t, "the drain's interrupts", func() bool { return w.Interrupted() == 1 })
	gate.Release()
	expect.Received(t, "the end of the drain", drained)
	s.empty(t)
	r.free("after the drain")
	e := r.awaitEvent("a requeued turn", func(e session.Event) bool { return e.Type == session.EventTurnRequeued })
	expect.Equal(t, "reason", e.Reason, string(worker.ReasonShutdown))
	expect.Equal(t, "error", e.Error, "")
	expect.Equal(t, "phase", r.info().Phase, session.PhaseParked)
	if r.rdb.ZScore(r.ctx, rediskey.Ready, r.key).Err() != nil {
		t.Error("the session is not ready for another worker")
	}
}

// drain begins a drain. The channel receives at its end.
func drain(w *worker.Worker) <-chan bool {
	done := make(chan bool, 1)
	go func() {
		w.Drain(context.Background(), worker.ReasonShutdown)
		done <- true
	}()
	return done
}

func TestB10_RunningIsInterruptedOnce(t *testing.T) {
	t.Parallel()
	expect.NotQuick(t)
	r := newRig(t)
	file := filepath.Join(t.TempDir(), "interrupts")
	a, err := exec.New(exec.Config{
		Command: []string{"sh", "-c", `trap 'echo INT >> "$0"' INT; trap 'echo TERM >> "$0"' TERM; echo up; while :; do sleep 0.05; done`, file},
		Grace:   500 * time.Millisecond,
	})
	expect.OK(t, err)
	w := r.worker(a, with(func(o *worker.Config) { o.DrainTimeout = 0 }))
	r.say("m1", "hello")
	r.awaitEvent("the agent's first word", func(e session.Event) bool { return strings.Contains(e.Text, "up") })
	expect.Received(t, "the end of the drain", drain(w))
	got, err := os.ReadFile(file)
	expect.OK(t, err)
	expect.Equal(t, "signals to the agent", string(got), "INT\n")
	expect.Equal(t, "phase", r.info().Phase, session.PhaseParked)
	r.free("after the drain")
}
