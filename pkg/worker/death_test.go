package worker_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/admin"
	"turnstile/pkg/resume"
	"turnstile/pkg/session"
	"turnstile/pkg/worker"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// course is the course of a session until its worker dies.
type course struct {
	name      string
	immediate bool   // the agent has no start phase
	tenants   string // a table, if workers sort sessions

	// before sends messages before there is a worker, during while it runs. Both also happen if
	// the worker is dead by then.
	before func(*rig)
	during func(*rig, *process)

	// ends are the messages in the order of their turns, with the statuses that each may end
	// with.
	ends []end
}

type end struct {
	id       string
	statuses []session.Status
}

func done(ids ...string) (ends []end) {
	for _, id := range ids {
		ends = append(ends, end{id, []session.Status{session.StatusDone}})
	}
	return ends
}

func say(id, text string, mode ...session.Mode) func(*rig) {
	return func(r *rig) { r.say(id, text, mode...) }
}

// onceRunning calls f as soon as m1's agent runs, or can no longer run.
func onceRunning(f func(*rig, *process)) func(*rig, *process) {
	return func(r *rig, p *process) {
		expect.Soon(r, "the first turn or the worker's death", func() bool {
			return p.dead() || r.info().Phase == "running"
		})
		f(r, p)
	}
}

func courses() []course {
	two := func(first string) func(*rig) {
		return func(r *rig) {
			r.say("m1", first)
			r.say("m2", "hello")
		}
	}
	return []course{
		{name: "three in line", immediate: true, ends: done("m1", "m2", "m3"), before: func(r *rig) {
			two("hello")(r)
			r.say("m3", "hello")
		}},
		{name: "counted by a limit", immediate: true, ends: done("m1", "m2"), tenants: `{"tenants": {"*": {"running": 1}}}`, before: two("hello")},
		{name: "start and tools and text and a checkpoint", ends: done("m1"), before: say("m1", "tool=a:30ms stream=3 tick=60ms hello again")},
		{name: "state and a question", ends: done("m1", "m2", "m3"), before: func(r *rig) {
			r.say("m1", "tool=a:30ms tick=60ms stream=2 hello again "+asks)
			r.say("m2", "sleep=400ms hello "+asks) // longer than a third of the TTL: renewed
			r.say("m3", "hello "+asks)
		}, during: func(r *rig, _ *process) { r.allowAll() }},
		{name: "state of a turn that is taken back", before: func(r *rig) {
			r.say("m0", "hello "+asks)
			r.say("m1", "sleep=500ms hello "+asks)
		},
			ends: append(append(done("m0"), end{"m1", []session.Status{session.StatusInterrupted, session.StatusDone}}), done("m2", "m3")...),
			during: func(r *rig, p *process) {
				r.allowAll()
				var mode session.Mode // if the worker has died before, a rollback would remove m0
				expect.Soon(r, "the second turn or the worker's death", func() bool {
					s := r.info()
					if s.Phase == "running" && slices.Contains(s.Messages, "m1") {
						mode = session.ModeRollback
					}
					return p.dead() || mode != ""
				})
				r.say("m2", "hello "+asks, mode)
				r.say("m3", "hello "+asks)
			}},
		{name: "requeued by a drain", ends: done("m1", "m2"), before: two("stream=16 tick=100ms hello again"),
			during: onceRunning(func(_ *rig, p *process) { _ = p.cmd.Process.Signal(syscall.SIGTERM) })},
		{name: "a failure that is tried again", immediate: true, ends: done("m1", "m2"), before: two("fail=retry:1 hello")},
		{name: "a failure", immediate: true, before: two("fail=final hello"),
			ends: append([]end{{"m1", []session.Status{session.StatusFailed}}}, done("m2")...)},
		{name: "stop", before: two("sleep=20s hello"),
			ends: []end{{"m1", []session.Status{session.StatusStopped}}, {"m2", []session.Status{session.StatusStopped}}},
			during: onceRunning(func(r *rig, _ *process) {
				_, err := r.client.Session(r.key).Stop(r.ctx)
				expect.OK(r, err)
			})},
		{name: "interrupt", before: say("m1", "sleep=500ms hello"),
			ends:   append([]end{{"m1", []session.Status{session.StatusInterrupted, session.StatusDone}}}, done("m2")...),
			during: onceRunning(func(r *rig, _ *process) { r.say("m2", "hello", session.ModeInterrupt) })},
		{name: "rollback", before: say("m1", "sleep=500ms hello"),
			ends:   append([]end{{"m1", []session.Status{session.StatusInterrupted, session.StatusDone}}}, done("m2")...),
			during: onceRunning(func(r *rig, _ *process) { r.say("m2", "hello", session.ModeRollback) })},
		{name: "steer", before: say("m1", "sleep=300ms hello"), ends: done("m1", "m2"),
			during: onceRunning(func(r *rig, _ *process) { r.say("m2", "hello", session.ModeSteer) })},
		{name: "collect", before: say("m1", "sleep=200ms hello"), ends: done("m1", "m2", "m3"),
			during: onceRunning(func(r *rig, _ *process) {
				expect.OK(r, r.client.Session(r.key).SetQueue(r.ctx, session.QueueSettings{Debounce: session.Millis(20 * time.Millisecond)}))
				r.say("m2", "hello", session.ModeCollect)
				r.say("m3", "hello", session.ModeCollect)
			})},
	}
}

// allowAll allows every question until the test ends. It names a question's number if the
// question is new, because a decision without a number is refused for 3 s.
func (r *rig) allowAll() {
	ctx, cancel := context.WithCancel(r.ctx)
	gone := make(chan struct{})
	r.Cleanup(func() {
		cancel()
		<-gone
	})
	go func() {
		defer close(gone)
		for tick := time.NewTicker(10 * time.Millisecond); ; {
			select {
			case <-ctx.Done():
				tick.Stop()
				return
			case <-tick.C:
				q, err := r.client.Session(r.key).Decide(ctx, "", session.Allow) // usually there is no question
				if errors.Is(err, session.ErrJustAsked) {
					_, _ = r.client.Session(r.key).Decide(ctx, q.ID(), session.Allow)
				}
			}
		}
	}()
}

// A worker is killed at every step of a turn: before each of its calls to Redis, and after each.
// Another worker takes over the session, and all six invariants hold. Without
// TURNSTILE_PROOF=true each course is tried at a few of its steps.
func TestDeathAtEveryStep(t *testing.T) {
	t.Parallel()
	slots := make(chan struct{}, 12) // each is a process that waits for a sentinel's end most of the time
	for n, c := range courses() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			slots <- struct{}{}
			steps := c.run(t, 0, false)
			<-slots
			if len(steps) < 3 { // it is killed after the end of all messages, before its last steps
				t.Fatalf("only these steps were counted: %q", steps)
			}
			for i, name := range steps {
				t.Logf("%2d  %s", i+1, name)
			}
			for step := range steps {
				for k, when := range []string{"before", "after"} {
					if !expect.Sampled(n+2*step+k, 23) { // an odd number: before and after come in turn
						continue
					}
					t.Run(fmt.Sprintf("%s step %d", when, step+1), func(t *testing.T) {
						t.Parallel()
						slots <- struct{}{}
						defer func() { <-slots }()
						c.run(t, step+1, when == "before")
					})
				}
			}
		})
	}
}

// run runs the course with a worker that dies at a step, and returns the steps that were reached.
func (c course) run(t *testing.T, step int, before bool) (steps []string) {
	t.Helper()
	r := newRig(t)
	j := job{
		TTL: expect.Lease(time.Second), Checkpoint: 50 * time.Millisecond, Step: step, Before: before, Immediate: c.immediate,
		Steps: filepath.Join(t.TempDir(), "steps"), Log: filepath.Join(t.TempDir(), "log"),
	}
	if c.tenants != "" {
		expect.OK(t, admin.NewClient(r.rdb).ApplyTenants(r.ctx, []byte(c.tenants)))
	}
	c.before(r)
	p := r.process("mortal", j)
	if c.during != nil {
		c.during(r, p)
	}
	expect.Soon(t, "the worker's death, or all its work to be done", func() bool { return p.dead() || c.over(r) })
	died := time.Now()
	p.kill()
	// Reap checks a session that a sender woke only after 15 s, whatever the worker's TTL is: let
	// that time be over.
	soon := redis.Z{Score: float64(died.Add(time.Second).UnixMilli()), Member: r.key}
	expect.OK(t, r.rdb.ZAddArgs(r.ctx, rediskey.Owned, redis.ZAddArgs{XX: true, LT: true, Members: []redis.Z{soon}}).Err())
	logs, err := newLogged(j.Log, c.immediate)
	expect.OK(t, err)
	r.worker(logs, sentinelTTL(heir.TTL), with(func(o *worker.Config) { o.RecoveryRate = 1000 }))
	c.check(r, j.Log)
	text, err := os.ReadFile(j.Steps)
	expect.OK(t, err)
	steps = strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' })
	switch {
	case step > len(steps):
		t.Logf("it went %d steps this time", len(steps))
	case step > 0:
		t.Logf("died at %s; all had ended %s later", steps[step-1], time.Since(died).Round(time.Millisecond))
	}
	return steps
}

// over reports whether every message ended.
func (c course) over(r *rig) bool {
	for _, e := range c.ends {
		if _, ended, err := actors.Result(r.ctx, r.client.Session(r.key), e.id); err != nil || !ended {
			return false
		}
	}
	return true
}

// check checks the invariants of DESIGN.md.
func (c course) check(r *rig, log string) {
	r.Helper()
	var answered []string
	for _, e := range c.ends { // 3, nothing lost: each message has one of its possible ends
		o := r.outcome(e.id)
		if !slices.Contains(e.statuses, o.Status) {
			r.Errorf("message %s ended as %s (%s), want one of %s\n%s", e.id, o.Status, o.Error, e.statuses, r.story(r.key))
		}
		if o.Status == session.StatusDone {
			answered = append(answered, e.id)
		}
	}
	expect.Soon(r, "the session to be free", func() bool { return r.token() == "" })
	expect.Soon(r, "all limits to be given back", func() bool {
		return r.rdb.Exists(r.ctx, rediskey.Running, rediskey.Holds, rediskey.Ends, rediskey.Sorted).Val() == 0
	})
	s := r.info()
	if s.Phase != session.PhaseIdle || s.Waiting+s.Delayed > 0 || r.rdb.LLen(r.ctx, r.k.Active()).Val() > 0 {
		r.Errorf("the session is left as %+v", s)
	}
	if r.rdb.Exists(r.ctx, r.k.Journal()).Val() > 0 {
		r.Error("a checkpoint is left behind")
	}
	c.effects(r, answered) // 4
	c.turns(r, log)        // 1, 2
	// 6: interruptions are counted until a turn is finished, and only until then.
	record, err := resume.Read(r.ctx, r.rdb, r.key)
	expect.OK(r, err)
	if len(answered) > 0 && slices.Contains(answered, c.ends[len(c.ends)-1].id) && record.Pending {
		r.Errorf("the last turn was finished, and the mark is still there: %+v", record)
	}
	if record.Interruptions > 1 {
		r.Errorf("one death was counted %d times", record.Interruptions)
	}
}

// effects checks that each message that is done has its entries in the transcript once and in
// order, and that only interrupted turns have left others.
func (c course) effects(r *rig, answered []string) {
	r.Helper()
	entries, err := actors.Transcript(r.ctx, r.client.Session(r.key), r.info().TranscriptID)
	expect.OK(r, err)
	var said []string
	for _, e := range entries {
		if e.Role == session.RoleUser {
			said = append(said, e.Message)
		}
	}
	kept := slices.DeleteFunc(slices.Clone(said), func(id string) bool { return !slices.Contains(answered, id) })
	expect.List(r, "the words of what is done", kept, answered...)
	if len(said) > len(answered)+1 {
		r.Errorf("the transcript has %q", said)
	}
}

// turns checks that no two turns of a process overlap, that their fences rise, and that they
// begin in the order of their messages. A turn without an end is the killed worker's. Turns after
// it are the other worker's, which starts after the death.
func (c course) turns(r *rig, log string) {
	r.Helper()
	text, err := os.ReadFile(log)
	expect.OK(r, err)
	var fence int64
	running, place := 0, -1 // the process with the running turn, and the last message
	for line := range strings.Lines(string(text)) {
		var what, id string
		var f int64
		var pid int
		_, err := fmt.Sscan(line, &what, &f, &pid, &id)
		expect.OK(r, err)
		if what == "end" {
			running = 0
			continue
		}
		at := slices.IndexFunc(c.ends, func(e end) bool { return e.id == id })
		if f <= fence {
			r.Errorf("fence %d after %d:\n%s", f, fence, text)
		}
		if running == pid {
			r.Errorf("two turns at once:\n%s", text)
		}
		if at < place {
			r.Errorf("%s began after a later one:\n%s", id, text)
		}
		fence, running, place = f, pid, at
	}
}

// dead reports whether the process ended.
func (p *process) dead() bool {
	select {
	case <-p.gone():
		return true
	default:
		return false
	}
}

// gone is closed when the process ends.
func (p *process) gone() <-chan struct{} {
	p.watch.Do(func() {
		p.over = make(chan struct{})
		go func() {
			p.wait()
			close(p.over)
		}()
	})
	return p.over
}
