package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/pkg/worker"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

func checkpointEvery(d time.Duration) change {
	return with(func(o *worker.Config) { o.CheckpointInterval(d) })
}

// watch returns a channel that receives the commands that match. It changes nothing.
func watch(f *redistest.Faults, match redistest.Match) <-chan redis.Cmder {
	seen := make(chan redis.Cmder, 10_000)
	f.FailBefore(func(cmd redis.Cmder) bool {
		if match(cmd) && cmd.Name() == "evalsha" { // the first EVALSHA on a server is followed by an EVAL
			seen <- cmd
		}
		return false
	}, -1, nil)
	return seen
}

// storedJournal is a session's journal.
type storedJournal struct {
	Fence    int64  // of the run that wrote it last
	Turn     string // that run
	Messages []string
	Entries  []session.Entry
	Closed   int
	Steps    map[string]string
}

// journal returns the session's stored journal.
func (r *rig) journal() (j storedJournal, ok bool) {
	r.Helper()
	stored := r.rdb.HGetAll(r.ctx, r.k.Journal()).Val()
	if len(stored) == 0 {
		return j, false
	}
	expect.Equal(r, "version of the journal", stored["v"], "1")
	_, err := fmt.Sscan(stored["call"], &j.Fence)
	expect.OK(r, err)
	j.Turn = rediskey.IDPrefix(r.key) + fmt.Sprint(j.Fence)
	var tasks []string
	expect.OK(r, json.Unmarshal([]byte(stored["ids"]), &tasks))
	for _, task := range tasks {
		j.Messages = append(j.Messages, protocol.MessageID(rediskey.IDPrefix(r.key), task))
	}
	n, err := strconv.Atoi(stored["n"])
	expect.OK(r, err)
	for i := range n {
		var e session.Entry
		expect.OK(r, json.Unmarshal([]byte(stored[fmt.Sprint("e:", i)]), &e))
		j.Entries = append(j.Entries, e)
	}
	j.Closed, j.Steps = len(j.Entries), map[string]string{}
	if stored["closed"] != "" {
		j.Closed, err = strconv.Atoi(stored["closed"])
		expect.OK(r, err)
	}
	for field, value := range stored {
		if key, ok := strings.CutPrefix(field, "s:"); ok {
			j.Steps[key] = value
		}
	}
	return j, true
}

// awaitJournal waits until the stored journal contains a text.
func (r *rig) awaitJournal(text string) (j storedJournal) {
	r.Helper()
	expect.Soon(r, "a checkpoint with "+text, func() bool {
		return strings.Contains(strings.Join(r.rdb.HVals(r.ctx, r.k.Journal()).Val(), "\n"), text)
	})
	j, _ = r.journal()
	return j
}

// brief formats entries as transcript does.
func brief(entries []session.Entry) (lines []string) {
	for _, e := range entries {
		line := string(e.Role) + " " + e.Text
		if e.Tool != nil {
			line += e.Tool.Name
		}
		if e.Interrupted {
			line += " (interrupted)"
		}
		lines = append(lines, line)
	}
	return lines
}

func (a *act) toolStart(id string) {
	a.Emit(agent.Event{Type: session.EventToolStart, Name: "search", CallID: id})
}

func (a *act) toolEnd(id string) {
	a.Emit(agent.Event{Type: session.EventToolEnd, CallID: id, Output: json.RawMessage(`"found"`)})
}

func TestB54_SaveWritesTheRecord(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newStage()
	r.worker(s)
	record := func() map[string]string { return r.rdb.HGetAll(r.ctx, r.k.Record()).Val() }
	r.say("m1", "hello")
	a := s.next(t, "m1")
	a.reply("one")
	r.ends("m1", session.StatusDone)
	first := record()
	expect.Equal(t, "version", first["v"], "1")
	expect.Equal(t, "session id", first["session_id"], a.TranscriptID)
	r.free("after the turn")
	r.say("m2", "again")
	s.next(t, "m2").reply("two")
	r.ends("m2", session.StatusDone)
	second := record()
	expect.Equal(t, "created at", second["created_at"], first["created_at"])
	if first["updated_at"] < first["created_at"] || second["updated_at"] <= first["updated_at"] {
		t.Errorf("updated at %s, then %s", first["updated_at"], second["updated_at"])
	}
	expect.Equal(t, "entries", r.info().Entries, 4)
}

func TestB59_ACheckpointPerBurst(t *testing.T) {
	t.Parallel()
	for name, agentOf := range map[string]func(*stage) agent.Agent{
		"with a start": func(s *stage) agent.Agent { return s },
		"immediate":    func(s *stage) agent.Agent { return immediate{s.Run} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			var f redistest.Faults
			sent := watch(&f, checkpointing)
			s := newStage()
			r.worker(agentOf(s), faulty(&f), checkpointEvery(200*time.Millisecond))
			r.say("m1", "hello")
			a := s.next(t, "m1")
			for burst := range 3 {
				for i := range 20 {
					a.text(fmt.Sprintf("%d.%d ", burst, i))
				}
				p := r.awaitJournal(fmt.Sprintf("%d.19 ", burst))
				expect.Equal(t, "turn", p.Turn, a.ID)
				expect.Equal(t, "fence", p.Fence, a.Fence)
				expect.List(t, "messages", p.Messages, "m1")
				expect.Equal(t, "entries", len(p.Entries), 2)
				expect.Equal(t, "the user's words", p.Entries[0].Text, "hello")
			}
			expect.List(t, "the running message", r.info().Messages, "m1")
			expect.Equal(t, "the running turn", r.info().Turn, a.ID)
			if n := len(sent); n < 3 || n > 6 { // three, or more on a slow machine
				t.Errorf("%d checkpoints of three bursts", n)
			}
			a.reply("done")
			r.ends("m1", session.StatusDone)
			_, kept := r.journal()
			expect.Equal(t, "a journal after the end", kept, false)
		})
	}
}

func TestB60_WhatCountsAsActivity(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var f redistest.Faults
	sent := watch(&f, checkpointing)
	s := newStage()
	r.worker(s, faulty(&f), checkpointEvery(time.Millisecond))
	r.say("m1", "hello")
	a := s.next(t, "m1")

	a.toolStart("1")
	a.toolEnd("1")
	expect.Received(t, "the checkpoint of a tool that has ended", sent)
	p := r.awaitJournal("found")
	expect.List(t, "stored", brief(p.Entries), "user hello", "tool search")
	a.text("I found ")
	expect.Received(t, "the checkpoint of a text", sent)
	p = r.awaitJournal("I found ")
	expect.List(t, "stored", brief(p.Entries), "user hello", "tool search", "assistant I found ")
	a.text("it") // the same entry: each piece of text is an activity
	expect.Received(t, "the checkpoint of more text", sent)
	r.awaitJournal("I found it")
	a.reply("I found it")
	r.ends("m1", session.StatusDone)
}

func TestB61_NoActivityNoWrite(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var f redistest.Faults
	sent, renewals := watch(&f, checkpointing), watch(&f, renewing)
	s := newStage()
	r.worker(s, faulty(&f), checkpointEvery(time.Millisecond), sentinelTTL(expect.Lease(time.Second)))
	r.say("m0", "before") // so that there is a transcript
	s.next(t, "m0").reply("ok")
	r.ends("m0", session.StatusDone)
	r.say("m1", "hello")
	a := s.next(t, "m1")
	quietly := func(after string) {
		t.Helper()
		was := r.rdb.HGet(r.ctx, r.k.Record(), "updated_at").Val()
		expect.Received(t, "a renewal", renewals)
		expect.Equal(t, "checkpoints after "+after, len(sent), 0)
		expect.Equal(t, "updated at after "+after, r.rdb.HGet(r.ctx, r.k.Record(), "updated_at").Val(), was)
	}
	quietly("the start")
	a.toolStart("1")
	a.Emit(agent.Event{Type: session.EventThought, Text: "hm"})
	quietly("a tool's start and a thought")
	_, stored := r.journal()
	expect.Equal(t, "a journal", stored, false)
	a.toolEnd("1")
	expect.Received(t, "the checkpoint", sent)
	r.awaitJournal("found")
	for len(renewals) > 0 {
		<-renewals
	}
	quietly("a checkpoint")
	a.reply("ok")
	r.ends("m1", session.StatusDone)
}

// However a turn ends, its checkpoints end with it. This test is not parallel, because it counts
// goroutines.
func TestB62_CheckpointerEndsWithTheTurn(t *testing.T) { //nolint:paralleltest // see above
	redistest.Real(t) // the embedded server has goroutines, too
	r := newRig(t)
	before := goleak.IgnoreCurrent()
	t.Run("turns", func(t *testing.T) { //nolint:paralleltest // its parent is not parallel
		q := rigOn(t, r.url, r.rdb)
		var f redistest.Faults
		sent := watch(&f, checkpointing)
		s := newStage()
		ends := map[string]func(*act){
			"reply": func(a *act) { a.reply("ok") },
			"error": func(a *act) { a.fail(errors.New("no")) },
			"stop":  func(*act) { q.say("", "/stop") },
			"drain": nil,
		}
		w := q.worker(s, faulty(&f), checkpointEvery(time.Hour), slots(len(ends)))
		for name, end := range ends {
			q.key = r.key + "." + name
			q.k = rediskey.For(q.key)
			q.say("m1", "hello")
			a := s.next(t, "m1")
			a.text("something") // a checkpoint is due in an hour
			if end != nil {
				end(a)
				q.outcome("m1")
			}
		}
		q.drainAtOnce(w)
		if n := len(sent); n > 1 { // one is the drain's
			t.Errorf("%d checkpoints, though none was due", n)
		}
	})
	if err := goleak.Find(before, redistest.Dialing()); err != nil {
		t.Errorf("goroutines left behind: %v", err)
	}
}

// The turn's end waits for a checkpoint in flight. Then the turn is finished, and its session
// continues.
func TestB66_CheckpointThenFinish(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var f redistest.Faults
	gate := f.Gate(checkpointing)
	finishes, renewals := watch(&f, finishing), watch(&f, renewing)
	s := newStage()
	r.worker(s, faulty(&f), checkpointEvery(time.Millisecond), sentinelTTL(expect.Lease(time.Second)))
	r.say("m1", "hello")
	r.say("m2", "behind")
	a := s.next(t, "m1")
	a.text("some")
	expect.Received(t, "the checkpoint", gate.Arrived())
	token := r.token()
	a.reply("something")
	for len(renewals) > 0 {
		<-renewals
	}
	expect.Received(t, "a renewal", renewals) // the end of the turn has waited for as long
	expect.Equal(t, "finishes while the checkpoint is in flight", len(finishes), 0)
	expect.Equal(t, "phase", r.info().Phase, "running")
	gate.Release()
	expect.Received(t, "the finish", finishes)
	r.ends("m1", session.StatusDone)
	b := s.next(t, "m2")
	expect.Equal(t, "sentinel", r.token(), token)
	_, kept := r.journal()
	expect.Equal(t, "a journal of the turn before", kept, false)
	b.reply("two")
	r.ends("m2", session.StatusDone)
	expect.List(t, "transcript", r.transcript(r.key), "user hello", "assistant something", "user behind", "assistant two")
}

func TestB67_EmptyReply(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end        func(*rig, *act)
		status     session.Status
		transcript []string
	}{
		"nothing at all":   {func(_ *rig, a *act) { a.reply("") }, session.StatusDone, []string{"user hello"}},
		"a tool only":      {func(_ *rig, a *act) { a.toolStart("1"); a.toolEnd("1"); a.reply("") }, session.StatusDone, []string{"user hello", "tool search"}},
		"an error":         {func(_ *rig, a *act) { a.fail(errors.New("no")) }, session.StatusFailed, []string{"user hello (interrupted)"}},
		"a stop":           {func(r *rig, _ *act) { r.say("", "/stop") }, session.StatusStopped, []string{"user hello (interrupted)"}},
		"an interruption":  {func(r *rig, _ *act) { r.say("m2", "now", session.ModeInterrupt) }, session.StatusInterrupted, []string{"user hello (interrupted)"}},
		"a rollback":       {func(r *rig, _ *act) { r.say("m2", "now", session.ModeRollback) }, session.StatusInterrupted, nil},
		"a text of blanks": {func(_ *rig, a *act) { a.text(""); a.reply("") }, session.StatusDone, []string{"user hello"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			s := newStage()
			r.worker(s, checkpointEvery(time.Millisecond))
			r.say("m1", "hello")
			c.end(r, s.next(t, "m1"))
			expect.Equal(t, "reply", r.ends("m1", c.status).Reply, "")
			for _, line := range c.transcript {
				expect.Equal(t, "an entry", r.transcript(r.key)[0], line)
				break
			}
			expect.Equal(t, "entries", len(r.transcript(r.key)), len(c.transcript))
		})
	}
}

// The agent's work since the last checkpoint is stored when the drain interrupts it, however long
// the agent takes to stop.
func TestB59_CheckpointAtTheInterrupt(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	up, stop := make(chan context.Context), make(chan bool)
	w := r.worker(agent.Func(func(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
		turn.Emit(agent.Event{Type: session.EventText, Text: "half"})
		up <- ctx
		<-stop
		turn.Emit(agent.Event{Type: session.EventText, Text: ", and more"})
		return agent.Result{}, context.Cause(ctx)
	}), checkpointEvery(time.Hour), drainTimeout(0), slots(1))
	release := sync.OnceFunc(func() { close(stop) })
	t.Cleanup(release)
	r.say("m1", "hello")
	ctx := expect.Received(t, "the turn", up)
	_, stored := r.journal()
	expect.Equal(t, "a journal before the drain", stored, false)
	drained := drain(w)
	p := r.awaitJournal("half")
	expect.List(t, "stored", brief(p.Entries), "user hello", "assistant half")
	<-ctx.Done()
	release()
	expect.Received(t, "the end of the drain", drained)
	p, _ = r.journal()
	expect.List(t, "after the requeue", brief(p.Entries), "user hello", "assistant half, and more")
}

// Checkpoints are stored one at a time: an older one that reaches Redis late does not replace a
// newer one.
func TestCheckpointsAreInOrder(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var f redistest.Faults
	gate := f.Gate(func(cmd redis.Cmder) bool {
		return checkpointing(cmd) && !strings.Contains(fmt.Sprint(cmd.Args()...), "newer")
	})
	end := f.Gate(parking)
	s := newStage()
	w := r.worker(agent.Func(func(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
		_, _ = s.Run(context.WithoutCancel(ctx), turn) // it does not stop at once
		return agent.Result{}, context.Cause(ctx)
	}), faulty(&f), checkpointEvery(time.Millisecond), drainTimeout(0), slots(1))
	r.say("m1", "hello")
	a := s.next(t, "m1")
	a.text("older, ")
	expect.Received(t, "the first checkpoint", gate.Arrived())
	a.text("newer")
	drained := drain(w)
	expect.Soon(t, "the interrupt", func() bool { return w.Interrupted() == 1 })
	gate.Release()
	a.reply("")
	expect.Received(t, "the turn's end, behind its checkpoints", end.Arrived())
	p, _ := r.journal()
	expect.List(t, "stored", brief(p.Entries), "user hello", "assistant older, newer")
	end.Release()
	expect.Received(t, "the end of the drain", drained)
}

// An activity without entries keeps the journal of an earlier run.
func TestCheckpointOfNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newStage()
	w := r.worker(s, drainTimeout(0), slots(1))
	r.say("m1", "hello")
	s.next(t, "m1").text("half")
	expect.Received(t, "the end of the drain", drain(w))
	w = r.worker(s, drainTimeout(0), slots(1), checkpointEvery(time.Millisecond))
	s.next(t, "m1").toolEnd("of no start")
	expect.Soon(t, "the tool's event", func() bool { return strings.Contains(r.story(r.key), string(session.EventToolEnd)) })
	expect.Received(t, "the end of the drain", drain(w))
	p, _ := r.journal()
	expect.List(t, "stored", brief(p.Entries), "user hello", "assistant half")
}
