package protocol_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile"
	sq "turnstile/internal/protocol"
	"turnstile/internal/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// A wait lasts through a crash, a retry and a drain.
func TestWait(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.say("a")
	got := b.waitFor("a")
	b.start()
	b.die()
	h := b.start()
	expect.OK(t, h.Retry(b.ctx, errors.New("flaky"), 0))
	h = b.start()
	expect.OK(t, h.Requeue(b.ctx, "drain"))
	h = b.start()
	b.finish(h)
	o := <-got
	expect.Equal(t, "status", o.Status, session.StatusDone)
	expect.Equal(t, "reply", o.Reply, "re: a")
	expect.Equal(t, "turn", o.Turn, h.Turn().ID)
	expect.Equal(t, "session id", o.SessionID, h.Turn().SessionID)
	expect.Equal(t, "session", o.Session, key)
	expect.Equal(t, "id", o.ID, "a")
	expect.Equal(t, "stored result", b.outcome("a"), o)
	again, err := b.client.Wait(b.ctx, key, "a")
	expect.OK(t, err)
	expect.Equal(t, "wait after the end", again, o)
}

func TestWaitEndsWithItsContext(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.say("a")
	why := errors.New("why")
	ctx, cancel := context.WithCancelCause(b.ctx)
	faults := &redistest.Faults{}
	reads := faults.Gate(redistest.Named("xread"))
	b.rdb.AddHook(faults)
	ended := make(chan error, 1)
	go func() {
		_, err := b.client.Wait(ctx, key, "a")
		ended <- err
	}()
	<-reads.Arrived()
	cancel(why)
	reads.Release()
	if err := <-ended; !errors.Is(err, why) {
		t.Errorf("error: %v", err)
	}
	expect.List(t, "the message goes on", b.drain(), "a")
}

func TestUnknownMessage(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	began := time.Now()
	for range 2 { // without events, and with
		if _, _, err := b.client.Result(b.ctx, key, "nope"); !errors.Is(err, turnstile.ErrUnknownMessage) {
			t.Errorf("result: %v", err)
		}
		if _, err := b.client.Wait(b.ctx, key, "nope"); !errors.Is(err, turnstile.ErrUnknownMessage) {
			t.Errorf("wait: %v", err)
		}
		if _, err := b.client.Follow(b.ctx, key, "nope", func(session.Event) {}); !errors.Is(err, turnstile.ErrUnknownMessage) {
			t.Errorf("follow: %v", err)
		}
		b.say("a")
		b.drain()
	}
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("it took %s to find out", took)
	}
}

// Without retention the events are the only trace of the end.
func TestWaitWithoutRetention(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(c *sq.Config) { c.Retention = 0 })
	b.sayAll("a", "b")
	got := b.waitFor("b")
	b.drain()
	expect.Equal(t, "reply", (<-got).Reply, "re: b")
	expect.Equal(t, "kept", b.state("a")+b.state("b"), "")
	if _, _, err := b.client.Result(b.ctx, key, "a"); !errors.Is(err, turnstile.ErrUnknownMessage) {
		t.Errorf("result: %v", err)
	}
	o, err := b.client.Wait(b.ctx, key, "a")
	expect.OK(t, err)
	expect.Equal(t, "wait after the end", o.Reply, "re: a")
	b.rdb.Del(b.ctx, b.k.Events())
	if _, err := b.client.Wait(b.ctx, key, "a"); !errors.Is(err, turnstile.ErrUnknownMessage) {
		t.Errorf("wait after the events were trimmed: %v", err)
	}
	expect.Equal(t, "the same id again", b.say("a").Status, turnstile.Accepted)
}

// The stored result answers when the events are trimmed, also those that a wait
// had begun to read.
func TestWaitWithTrimmedEvents(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	faults := &redistest.Faults{}
	b.say("a")
	h := b.start()
	reads := faults.Gate(redistest.Named("xread"))
	b.rdb.AddHook(faults)
	got := b.waitFor("a")
	<-reads.Arrived()
	b.finish(h)
	b.rdb.XTrimMaxLen(b.ctx, b.k.Events(), 0)
	reads.Release()
	expect.Equal(t, "reply", (<-got).Reply, "re: a")
	o, err := b.client.Follow(b.ctx, key, "a", func(session.Event) {})
	expect.OK(t, err)
	expect.Equal(t, "reply", o.Reply, "re: a")
}

// A message that an operator deletes while somebody waits is unknown then.
func TestWaitForADeletedMessage(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.say("a")
	reading := &redistest.Faults{}
	reads := reading.Gate(redistest.Named("xread"))
	b.rdb.AddHook(reading)
	ended := make(chan error, 1)
	go func() {
		_, err := b.client.Wait(b.ctx, key, "a")
		ended <- err
	}()
	<-reads.Arrived()
	expect.OK(t, b.inspector().DeleteTask(rediskey.Queue(key), b.task("a")))
	reads.Release()
	if err := <-ended; !errors.Is(err, turnstile.ErrUnknownMessage) {
		t.Errorf("error: %v", err)
	}
}

// A follower sees its own message's turns from their start, and no other's.
func TestFollow(t *testing.T) {
	t.Parallel()
	for _, late := range []bool{false, true} {
		t.Run(fmt.Sprint("late ", late), func(t *testing.T) {
			t.Parallel()
			follow(t, late)
		})
	}
}

func follow(t *testing.T, late bool) {
	b := newBench(t)
	b.sayAll("a", "b")
	run := func() {
		h := b.start()
		for _, id := range []string{"a", "b"} {
			expect.OK(t, h.Emit(b.ctx, []session.Event{
				{Type: "tool_start", Turn: h.Turn().ID, Name: "look " + id},
				{Type: "text", Turn: h.Turn().ID, Text: "re: " + id},
			}))
			b.finish(h)
			if id == "a" {
				expect.OK(t, h.Promote(b.ctx))
			}
		}
	}
	if late {
		run()
	}
	var types []string
	seen := make(chan error, 1)
	var o session.Outcome
	go func() {
		var err error
		o, err = b.client.Follow(b.ctx, key, "b", func(e session.Event) {
			types = append(types, e.Type+" "+e.Name+e.Text)
			if e.At.IsZero() {
				t.Error("an event without a time")
			}
		})
		seen <- err
	}()
	if !late {
		run()
	}
	expect.OK(t, <-seen)
	expect.Equal(t, "reply", o.Reply, "re: b")
	expect.List(t, "seen", types, "turn_started ", "tool_start look b", "text re: b")
}

// What another program made of a session's task.
func TestOutcomesOfOthers(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.sayAll("a", "b")
	expect.OK(t, b.inspector().ArchiveTask(rediskey.Queue(key), b.task("a")))
	o := b.outcome("a")
	expect.Equal(t, "status", o.Status, session.StatusFailed)
	expect.Equal(t, "error", o.Error, "archived by an operator")
	b.rdb.HSet(b.ctx, b.k.Task(b.task("b")), "state", "completed", "result", "plain")
	expect.Equal(t, "reply of a stock asynq.Server", b.outcome("b").Reply, "plain")
}

// B82: the same id before, while and after its message runs is one turn.
func TestB82_Duplicates(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	dup := func(state string) {
		t.Helper()
		r := b.say("a")
		expect.Equal(t, "status", r.Status, turnstile.Duplicate)
		expect.Equal(t, "state", r.State, state)
	}
	expect.Equal(t, "first", b.say("a").Status, turnstile.Accepted)
	dup("pending")
	h := b.claim()
	dup("running")
	expect.OK(t, h.Promote(b.ctx))
	dup("running")
	b.say("b")
	expect.Equal(t, "b again", b.say("b").State, "pending")
	expect.Equal(t, "b's place", b.say("b").Position, 2)
	b.finish(h)
	dup("completed")
	expect.OK(t, h.Promote(b.ctx))
	_, err := h.Finish(b.ctx, sq.End{Status: session.StatusFailed, Error: "no"})
	expect.OK(t, err)
	expect.Equal(t, "b archived", b.say("b").State, "archived")
	_, err = b.client.Submit(b.ctx, key, session.Message{ID: "c", Text: "c"}, turnstile.Delay(time.Hour))
	expect.OK(t, err)
	r := b.say("c")
	expect.Equal(t, "c", string(r.Status)+" "+r.State, "duplicate scheduled")
	expect.List(t, "runs", b.drain())
	expect.List(t, "transcript", b.transcript(h.Turn().SessionID), "a", "re: a")

	// Once its retention is over, the id is free.
	b.rdb.ZAdd(b.ctx, b.k.Completed(), redis.Z{Score: 1, Member: b.task("a")})
	n, err := b.c.Purge(b.ctx)
	expect.OK(t, err)
	expect.Equal(t, "purged", n, 1)
	expect.Equal(t, "again", b.say("a").Status, turnstile.Accepted)
}

// Whoever follows a message sees each piece of the reply once, also where a
// message was steered in between: then the reply is what came after it, or all.
func TestFollowASteeredTurn(t *testing.T) {
	t.Parallel()
	for name, reply := range map[string]string{"the reply is the rest": "and after it.", "the reply is all": "Before, and after it."} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.say("a")
			h := b.start()
			b.say("b", session.ModeSteer)
			_, err := h.Steer(b.ctx)
			expect.OK(t, err)
			turn := h.Turn().ID
			expect.OK(t, h.Emit(b.ctx, []session.Event{
				{Type: "text", Turn: turn, Text: "Before, "}, {Type: session.EventSteered, Turn: turn, Messages: []string{"b"}},
				{Type: "text", Turn: turn, Text: "and after"},
			}))
			_, err = h.Finish(b.ctx, sq.End{Status: session.StatusDone, Reply: reply})
			expect.OK(t, err)
			for id, want := range map[string]string{"a": "Before, and after it.", "b": "and after it."} {
				said := ""
				_, err := b.client.Follow(b.ctx, key, id, func(e session.Event) { said += e.Text })
				expect.OK(t, err)
				// The one that was steered in was not there at the beginning.
				if id == "b" && reply != "and after it." {
					want = "and after"
				}
				expect.Equal(t, "seen by "+id, said, want)
			}
		})
	}
}
