package worker_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"turnstile"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/wire"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/pkg/worker"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// steerStage is a stage with turns that can be steered.
type steerStage struct{ *stage }

func (steerStage) Traits() agent.Traits { return agent.Traits{Steerable: true} }

func line(s session.QueueSettings) change {
	return with(func(o *worker.Config) { o.Queue = s })
}

// steering matches the calls of the steer script in the turn of one message.
func steering(task string) redistest.Match {
	return func(cmd redis.Cmder) bool {
		args := cmd.Args()
		return script("steer")(cmd) && args[len(args)-1] == task
	}
}

// steer waits for a steer that is offered to the turn.
func (a *act) steer(t testing.TB, id string) agent.Steer {
	t.Helper()
	s := expect.Received(t, "the steer "+id, a.Steers())
	if s.Message.ID != id {
		t.Fatalf("the turn is offered %s, want %s", s.Message.ID, id)
	}
	return s
}

// Several collected messages are one turn, and all end with it. Messages that are too old or
// invalid are archived, and the turn continues.
func TestCollectedTurn(t *testing.T) {
	t.Parallel()
	for name, put := range map[string]string{"good ones": "", "bad ones first": "first", "bad ones last": "last"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			s := newStage()
			r.worker(s, line(session.QueueSettings{Mode: session.ModeCollect, Debounce: session.Millis(30 * time.Millisecond)}))
			r.say("m1", "hello")
			a := s.next(t, "m1")
			bad := func() {
				r.send(r.key, turnstile.Message{ID: "old", Text: "old", ExpiresIn: 1})
				const id = "broken"
				_, err := asynq.NewClientFromRedisClient(r.rdb).EnqueueContext(r.ctx, asynq.NewTask(wire.TaskType, []byte("{")),
					asynq.Queue(rediskey.Queue(r.key)), asynq.TaskID(rediskey.TaskID(r.key, id)))
				expect.OK(t, err)
				expect.OK(t, r.rdb.HSet(r.ctx, r.k.Task(rediskey.TaskID(r.key, id)), "quiet", "1 100").Err())
			}
			if put == "first" {
				bad()
			}
			r.say("m2", "one")
			r.say("m3", "two")
			if put == "last" {
				bad()
			}
			a.reply("ok")
			b := s.next(t, "m2")
			expect.Equal(t, "messages", len(b.Messages), 2)
			expect.Equal(t, "text", b.Text(), "one\n\ntwo")
			b.reply("both")
			for _, id := range []string{"m2", "m3"} {
				o := r.ends(id, session.StatusDone)
				expect.Equal(t, "its reply", o.Reply+" "+o.Turn, "both "+b.ID)
			}
			want := []string{"m1", "m2", "m3"}
			if put != "" {
				if o := r.ends("old", session.StatusExpired); !strings.Contains(o.Error, "expired") {
					t.Errorf("old: %s", o.Error)
				}
				o := r.ends("broken", session.StatusFailed)
				expect.Equal(t, "what its users learn", o.Error+", "+o.Code, "the message is invalid, "+session.CodeInvalidMessage)
				if !strings.Contains(o.Detail, "not a message in JSON") {
					t.Errorf("broken: %q", o.Detail)
				}
				r.archivedAs("old")
				r.archivedAs("broken")
			}
			// On a slow machine the start of a turn is published before its bad messages are
			// dismissed.
			starts := slices.DeleteFunc(r.starts(r.key), func(id string) bool { return id == "old" || id == "broken" })
			expect.List(t, "turns", starts, want...)
			expect.List(t, "transcript", r.transcript(r.key), "user hello", "assistant ok", "user one", "user two", "assistant both")
		})
	}
}

func TestCollectedTurnOfBadMessagesOnly(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newStage()
	r.worker(s, line(session.QueueSettings{Mode: session.ModeCollect, Debounce: session.Millis(time.Millisecond)}))
	r.say("m1", "hello")
	a := s.next(t, "m1")
	for i := range 3 {
		r.send(r.key, turnstile.Message{ID: fmt.Sprint("old", i), Text: "old", ExpiresIn: 1})
	}
	a.reply("ok")
	for i := range 3 {
		r.ends(fmt.Sprint("old", i), session.StatusExpired)
	}
	expect.Soon(t, "the session to be free", func() bool { return r.token() == "" })
	s.empty(t)
	expect.Equal(t, "waiting messages", r.info().Waiting, 0)
}

// Interrupt keeps the turn's entries, rollback none.
func TestInterruptAndRollback(t *testing.T) {
	t.Parallel()
	for mode, want := range map[session.Mode][]string{
		session.ModeInterrupt: {"user hello", "assistant half (interrupted)", "user now", "assistant two"},
		session.ModeRollback:  {"user now", "assistant two"},
	} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			s := newStage()
			r.worker(s, with(func(o *worker.Config) { o.CheckpointInterval(time.Millisecond) }))
			r.say("m1", "hello")
			a := s.next(t, "m1")
			a.text("half")
			expect.Soon(t, "a checkpoint", func() bool { return r.rdb.Exists(r.ctx, r.k.Journal()).Val() == 1 })
			r.say("m3", "behind")
			expect.Equal(t, "position", r.say("m2", "now", mode).Position, 2)
			o := r.ends("m1", session.StatusInterrupted)
			b := s.next(t, "m2")
			expect.Equal(t, "a checkpoint is left", r.rdb.Exists(r.ctx, r.k.Journal()).Val(), 0)
			state := r.rdb.HGet(r.ctx, r.k.Task(rediskey.TaskID(r.key, "m1")), "state").Val()
			if mode == session.ModeInterrupt {
				expect.Equal(t, "error", o.Error, "interrupted by a newer message")
				expect.Equal(t, "state", state, "completed")
			} else {
				expect.Equal(t, "error", o.Error, "rolled back by a newer message")
				expect.Equal(t, "reason in the archive", r.archivedAs("m1"), o.Error)
				expect.Equal(t, "history", len(b.History), 0)
			}
			b.reply("two")
			s.next(t, "m3")
			expect.List(t, "transcript", r.transcript(r.key), want...)
		})
	}
}

// The worker dies between the signal and the turn's end.
func TestInterruptedWorkerIsKilled(t *testing.T) {
	t.Parallel()
	for mode, want := range map[session.Mode][]string{
		session.ModeInterrupt: {"user tool=look sleep=1h hello", "tool look (interrupted)", "user now", "assistant echo: now"},
		session.ModeRollback:  {"user now", "assistant echo: now"},
	} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			one := r.process("one", job{TTL: expect.Lease(2 * time.Second), Checkpoint: time.Millisecond})
			r.say("m1", "tool=look sleep=1h hello")
			expect.Soon(t, "a checkpoint, and the turn's start to be published", func() bool {
				return r.rdb.Exists(r.ctx, r.k.Journal()).Val() == 1 && len(r.started("m1")) == 1
			})
			one.stop()
			expect.Equal(t, "position", r.say("m2", "now", mode).Position, 2)
			one.kill()
			r.process("two", heir)
			r.ends("m1", session.StatusInterrupted)
			r.ends("m2", session.StatusDone)
			expect.List(t, "turns", r.starts(r.key), "m1", "m1", "m2") // its next owner ends it
			expect.List(t, "transcript", r.transcript(r.key), want...)
		})
	}
}

// The note of the turn after dropped messages has one line for each. Only a turn that succeeds
// uses the note up.
func TestNoteListsDroppedMessages(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newStage()
	r.worker(s, line(session.QueueSettings{Cap: 1, Drop: session.DropSummarize}))
	r.say("m1", "hello")
	a := s.next(t, "m1")
	for i := 2; i <= 4; i++ {
		r.say(fmt.Sprint("m", i), fmt.Sprint("text ", i))
	}
	r.ends("m2", session.StatusDropped)
	r.ends("m3", session.StatusDropped)
	expect.Equal(t, "note", a.Note, "")
	a.reply("ok")
	lines := func(note string) (lines []string) {
		for l := range strings.SplitSeq(strings.Trim(note, "[]"), "\n") {
			if strings.HasPrefix(l, "- ") {
				lines = append(lines, l)
			}
		}
		return lines
	}
	want := []string{`- "text 2"`, `- "text 3"`}
	b := s.next(t, "m4")
	expect.List(t, "lines of the note", lines(b.Note), want...)
	b.fail(agent.Retryable(fmt.Errorf("flaky")))
	b = s.next(t, "m4")
	expect.List(t, "lines of the second attempt's note", lines(b.Note), want...)
	r.say("m5", "on")
	b.reply("ok")
	c := s.next(t, "m5")
	expect.Equal(t, "the next turn's note", c.Note, "")
	c.reply("ok")
	r.ends("m5", session.StatusDone)
	r.say("m6", "on")
	d := s.next(t, "m6")
	expect.Equal(t, "the note of the turn after", d.Note, "")
	d.reply("ok")
	if texts := r.transcript(r.key); slices.ContainsFunc(texts, func(l string) bool { return strings.Contains(l, "System note") }) {
		t.Errorf("the note is in the transcript: %q", texts)
	}
}

// A drain's notice and signals reach a turn that is dismissing messages.
func TestSignalsWhileMessagesAreDismissed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var f redistest.Faults
	gate := f.GateReply(func(cmd redis.Cmder) bool { return slices.Contains(cmd.Args(), any("old")) })
	s := steerStage{newStage()}
	w := r.worker(s, faulty(&f), sentinelTTL(time.Minute), line(session.QueueSettings{Mode: session.ModeCollect, Debounce: session.Millis(time.Millisecond)}),
		with(func(o *worker.Config) { o.DrainTimeout = time.Minute }))
	r.say("m1", "hello")
	a := s.next(t, "m1")
	r.send(r.key, turnstile.Message{ID: "old", Text: "old", ExpiresIn: 1})
	r.say("m2", "one")
	a.reply("ok")
	expect.Received(t, "the dismissal", gate.Arrived())
	r.say("m3", "steer", session.ModeSteer)
	gate.Release()
	ctx, cancel := context.WithCancel(r.ctx)
	drained := make(chan struct{})
	go func() { defer close(drained); w.Drain(ctx, worker.ReasonShutdown) }()
	b := s.next(t, "m2")
	b.steer(t, "m3").Accept()
	b.reply("two")
	r.ends("m3", session.StatusDone)
	<-drained
	cancel()
}
