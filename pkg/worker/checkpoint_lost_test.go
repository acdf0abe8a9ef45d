package worker_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/agent"
	"turnstile/pkg/resume"
	"turnstile/pkg/session"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// After kill -9 Redis has the running message, the turn's ID, its entries and the history, and
// the next worker's agent gets them.
func TestB64_SurvivesKill(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	one := r.process("one", job{TTL: expect.Lease(3 * time.Second), Checkpoint: 50 * time.Millisecond})
	r.say("m0", "hi")
	first := r.ends("m0", session.StatusDone)
	r.say("m1", "tool=search stream=100 tick=50ms abcdefghijklmnopqrstuvwxyz")
	r.awaitJournal("echo: abc")
	running := r.info()
	one.kill()

	p, _ := r.journal()
	expect.Equal(t, "turn of the journal", p.Turn, running.Turn)
	expect.List(t, "messages of the journal", p.Messages, "m1")
	expect.Equal(t, "active messages", r.rdb.LLen(r.ctx, r.k.Active()).Val(), 1)
	expect.Equal(t, "the running turn", rediskey.IDPrefix(r.key)+r.rdb.HGet(r.ctx, r.k.Run(), "fence").Val(), running.Turn)
	expect.List(t, "the earlier transcript", r.transcript(r.key), "user hi", "assistant echo: hi")
	if len(p.Entries) != 3 {
		t.Fatalf("the journal has %q", brief(p.Entries))
	}
	half := p.Entries[2].Text

	s := newStage()
	r.worker(s, sentinelTTL(heir.TTL))
	a := s.next(t, "m1")
	expect.Equal(t, "session id", a.TranscriptID, first.TranscriptID)
	expect.Equal(t, "redelivered", a.Redelivered, true)
	expect.List(t, "history", brief(a.History), "user hi", "assistant echo: hi",
		"user "+a.Messages[0].Text, "tool search", "assistant "+half+" (interrupted)")
	if !strings.Contains(a.Note, "a gateway interruption") {
		t.Errorf("note %q", a.Note)
	}
	a.reply("the rest")
	r.ends("m1", session.StatusDone)
	expect.List(t, "transcript", r.transcript(r.key), "user hi", "assistant echo: hi",
		"user "+a.Messages[0].Text, "tool search", "assistant "+half+" (interrupted)", "assistant the rest")
}

// The checkpoint of a worker that has lost the session is sent, but writes nothing.
func TestB70_LostWorkersCheckpoint(t *testing.T) {
	t.Parallel()
	redistest.Real(t) // the embedded server dumps only strings
	r := newRig(t)
	var f redistest.Faults
	gate := f.Gate(checkpointing)
	one, two := newStage(), newStage()
	w := r.worker(one, faulty(&f), checkpointEvery(time.Millisecond), sentinelTTL(time.Minute), slots(1))
	r.say("m1", "hello")
	a := one.next(t, "m1")
	a.text("never seen")
	expect.Received(t, "the checkpoint", gate.Arrived())
	// These would show the worker that it has lost the session.
	expect.Soon(t, "the events", func() bool { return strings.Contains(r.story(r.key), "never seen") })
	expect.OK(t, r.rdb.Del(r.ctx, r.k.Sentinel()).Err()) // as if it had expired
	r.worker(two, sentinelTTL(time.Minute))
	r.wake()
	b := two.next(t, "m1")
	b.text("mine")
	b.reply("mine")
	r.ends("m1", session.StatusDone)
	before := r.sessionDump()
	gate.Release()
	if err := a.cause(t); !errors.Is(err, agent.ErrLeaseLost) {
		t.Errorf("the turn ended with %v", err)
	}
	expect.Soon(t, "the worker to be idle", func() bool { return w.Status().Running == 0 })
	if after := r.sessionDump(); after != before {
		t.Errorf("the lost worker wrote:\nbefore\n%s\nafter\n%s", before, after)
	}
}

// wake makes workers check the session.
func (r *rig) wake() {
	r.Helper()
	expect.OK(r, r.rdb.ZAdd(r.ctx, rediskey.Ready, redis.Z{Score: 1, Member: r.key}).Err())
}

// A worker that was stopped past its TTL while a checkpoint was due writes nothing when it
// continues.
func TestB70_StoppedBeforeACheckpoint(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ttl := expect.Lease(time.Second)
	one := r.process("one", job{TTL: ttl, Checkpoint: 100 * time.Millisecond})
	r.say("m1", "stream=26 tick=100ms abcdefghijklmnopqrstuvwxyz")
	r.awaitJournal("echo: ")
	one.stop() // its next checkpoint is due, because its agent always writes
	s := newStage()
	r.worker(s, sentinelTTL(heir.TTL))
	a := s.next(t, "m1")
	a.text("mine")
	expect.Soon(t, "the events", func() bool { return strings.Contains(r.story(r.key), "mine") })
	task := r.k.Task(r.rdb.LIndex(r.ctx, r.k.Active(), 0).Val())
	before := r.steady(task)
	one.signal(syscall.SIGCONT)
	expect.Soon(t, "the stopped worker to notice", func() bool { return strings.Contains(one.log.String(), "status=lost") })
	// It may only write that it lives, so that the lost turn does not count as its death.
	expect.Soon(t, "its word that it lives", func() bool { return r.rdb.HGet(r.ctx, r.k.Resume(), "reason").Val() == resume.ReasonLeaseLost })
	expect.Equal(t, "interruptions", r.rdb.HGet(r.ctx, r.k.Resume(), "interruptions").Val(), "0")
	if after := r.steady(task); after != before {
		t.Errorf("the stopped worker wrote:\nbefore\n%s\nafter\n%s", before, after)
	}
	a.reply("mine")
	r.ends("m1", session.StatusDone)
	one.end()
	if strings.Contains(one.log.String(), "ERROR") {
		t.Errorf("the stopped worker said %s", one.log.String())
	}
}

// steady is the part of the dump that is changed neither by renewals nor by an owner that reports
// that it lives, which takes back counts in the message's task and in the resume record.
func (r *rig) steady(task string) string {
	r.Helper()
	counts := map[string][]string{task: {"deaths", "died"}, r.k.Resume(): {"reason", "crashes", "interruptions", "runs"}}
	var lines []string
	for _, line := range strings.Split(r.sessionDump(), "\n") {
		key, _, _ := strings.Cut(line, " ")
		if counts[key] == nil && key != r.k.Lease() {
			lines = append(lines, line)
		}
	}
	for key, fields := range counts {
		record := r.rdb.HGetAll(r.ctx, key).Val()
		for _, f := range fields {
			delete(record, f)
		}
		lines = append(lines, fmt.Sprint(key, " ", record))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// The end of a tool is stored at once, however long the interval is: the tool may have had
// effects, and should not run again.
func TestCheckpointAtAToolsEnd(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newStage()
	r.worker(s, checkpointEvery(time.Hour))
	r.say("m1", "hello")
	a := s.next(t, "m1")
	a.toolStart("1")
	a.toolEnd("1")
	p := r.awaitJournal("found")
	expect.List(t, "stored", brief(p.Entries), "user hello", "tool search")
	a.reply("done")
	r.ends("m1", session.StatusDone)
}
