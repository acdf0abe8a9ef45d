package protocol_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/internal/protocol"
	"turnstile/internal/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// A wait lasts through a crash, a retry and a drain.
func TestWait(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	got := b.WaitFor("a")
	b.Start()
	b.Die()
	h := b.Start()
	expect.OK(t, h.Retry(b.Ctx, errors.New("flaky"), 0))
	h = b.Start()
	expect.OK(t, h.Requeue(b.Ctx, "drain"))
	h = b.Start()
	b.Finish(h)
	o := <-got
	expect.Equal(t, "status", o.Status, session.StatusDone)
	expect.Equal(t, "reply", o.Reply, "re: a")
	expect.Equal(t, "turn", o.Turn, h.Turn().ID)
	expect.Equal(t, "session id", o.SessionID, h.Turn().SessionID)
	expect.Equal(t, "session", o.Session, actors.Key)
	expect.Equal(t, "id", o.ID, "a")
	expect.Equal(t, "stored result", b.Outcome("a"), o)
	again, err := b.Client.Wait(b.Ctx, actors.Key, "a")
	expect.OK(t, err)
	expect.Equal(t, "wait after the end", again, o)
}

func TestWaitEndsWithItsContext(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	why := errors.New("why")
	ctx, cancel := context.WithCancelCause(b.Ctx)
	faults := &redistest.Faults{}
	reads := faults.Gate(redistest.Named("xread"))
	b.Redis.AddHook(faults)
	ended := make(chan error, 1)
	go func() {
		_, err := b.Client.Wait(ctx, actors.Key, "a")
		ended <- err
	}()
	<-reads.Arrived()
	cancel(why)
	reads.Release()
	if err := <-ended; !errors.Is(err, why) {
		t.Errorf("error: %v", err)
	}
	expect.List(t, "the message goes on", b.Drain(), "a")
}

func TestUnknownMessage(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	began := time.Now()
	for range 2 { // without events, and with
		if _, _, err := b.Client.Result(b.Ctx, actors.Key, "nope"); !errors.Is(err, turnstile.ErrUnknownMessage) {
			t.Errorf("result: %v", err)
		}
		if _, err := b.Client.Wait(b.Ctx, actors.Key, "nope"); !errors.Is(err, turnstile.ErrUnknownMessage) {
			t.Errorf("wait: %v", err)
		}
		if _, err := b.Client.Follow(b.Ctx, actors.Key, "nope", func(session.Event) {}); !errors.Is(err, turnstile.ErrUnknownMessage) {
			t.Errorf("follow: %v", err)
		}
		b.Say("a")
		b.Drain()
	}
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("it took %s to find out", took)
	}
}

// Without retention the events are the only trace of the end.
func TestWaitWithoutRetention(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t, func(c *protocol.Config) { c.Retention = 0 })
	b.SayAll("a", "b")
	got := b.WaitFor("b")
	b.Drain()
	expect.Equal(t, "reply", (<-got).Reply, "re: b")
	expect.Equal(t, "kept", b.State("a")+b.State("b"), "")
	if _, _, err := b.Client.Result(b.Ctx, actors.Key, "a"); !errors.Is(err, turnstile.ErrUnknownMessage) {
		t.Errorf("result: %v", err)
	}
	o, err := b.Client.Wait(b.Ctx, actors.Key, "a")
	expect.OK(t, err)
	expect.Equal(t, "wait after the end", o.Reply, "re: a")
	b.Redis.Del(b.Ctx, b.Keys.Events())
	if _, err := b.Client.Wait(b.Ctx, actors.Key, "a"); !errors.Is(err, turnstile.ErrUnknownMessage) {
		t.Errorf("wait after the events were trimmed: %v", err)
	}
	expect.Equal(t, "the same id again", b.Say("a").Status, turnstile.Accepted)
}

// The stored result answers when the events are trimmed, also those that a wait
// had begun to read.
func TestWaitWithTrimmedEvents(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	faults := &redistest.Faults{}
	b.Say("a")
	h := b.Start()
	reads := faults.Gate(redistest.Named("xread"))
	b.Redis.AddHook(faults)
	got := b.WaitFor("a")
	<-reads.Arrived()
	b.Finish(h)
	b.Redis.XTrimMaxLen(b.Ctx, b.Keys.Events(), 0)
	reads.Release()
	expect.Equal(t, "reply", (<-got).Reply, "re: a")
	o, err := b.Client.Follow(b.Ctx, actors.Key, "a", func(session.Event) {})
	expect.OK(t, err)
	expect.Equal(t, "reply", o.Reply, "re: a")
}

// A message that an operator deletes while somebody waits is unknown then.
func TestWaitForADeletedMessage(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	reading := &redistest.Faults{}
	reads := reading.Gate(redistest.Named("xread"))
	b.Redis.AddHook(reading)
	ended := make(chan error, 1)
	go func() {
		_, err := b.Client.Wait(b.Ctx, actors.Key, "a")
		ended <- err
	}()
	<-reads.Arrived()
	expect.OK(t, b.Inspector().DeleteTask(rediskey.Queue(actors.Key), b.Task("a")))
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
	b := actors.NewBench(t)
	b.SayAll("a", "b")
	run := func() {
		h := b.Start()
		for _, id := range []string{"a", "b"} {
			expect.OK(t, h.Emit(b.Ctx, []session.Event{
				{Type: "tool_start", Turn: h.Turn().ID, Name: "look " + id},
				{Type: "text", Turn: h.Turn().ID, Text: "re: " + id},
			}))
			b.Finish(h)
			if id == "a" {
				expect.OK(t, h.Promote(b.Ctx))
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
		o, err = b.Client.Follow(b.Ctx, actors.Key, "b", func(e session.Event) {
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
	b := actors.NewBench(t)
	b.SayAll("a", "b")
	expect.OK(t, b.Inspector().ArchiveTask(rediskey.Queue(actors.Key), b.Task("a")))
	o := b.Outcome("a")
	expect.Equal(t, "status", o.Status, session.StatusFailed)
	expect.Equal(t, "error", o.Error, "archived by an operator")
	b.Redis.HSet(b.Ctx, b.Keys.Task(b.Task("b")), "state", "completed", "result", "plain")
	expect.Equal(t, "reply of a stock asynq.Server", b.Outcome("b").Reply, "plain")
}

// B82: the same id before, while and after its message runs is one turn.
func TestB82_Duplicates(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	dup := func(state string) {
		t.Helper()
		r := b.Say("a")
		expect.Equal(t, "status", r.Status, turnstile.Duplicate)
		expect.Equal(t, "state", r.State, state)
	}
	expect.Equal(t, "first", b.Say("a").Status, turnstile.Accepted)
	dup("pending")
	h := b.Claim()
	dup("running")
	expect.OK(t, h.Promote(b.Ctx))
	dup("running")
	b.Say("b")
	expect.Equal(t, "b again", b.Say("b").State, "pending")
	expect.Equal(t, "b's place", b.Say("b").Position, 2)
	b.Finish(h)
	dup("completed")
	expect.OK(t, h.Promote(b.Ctx))
	_, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusFailed, Error: "no"})
	expect.OK(t, err)
	expect.Equal(t, "b archived", b.Say("b").State, "archived")
	_, err = b.Client.Submit(b.Ctx, actors.Key, session.Message{ID: "c", Text: "c"}, turnstile.Delay(time.Hour))
	expect.OK(t, err)
	r := b.Say("c")
	expect.Equal(t, "c", string(r.Status)+" "+r.State, "duplicate scheduled")
	expect.List(t, "runs", b.Drain())
	expect.List(t, "transcript", b.Transcript(h.Turn().SessionID), "a", "re: a")

	// Once its retention is over, the id is free.
	b.Redis.ZAdd(b.Ctx, b.Keys.Completed(), redis.Z{Score: 1, Member: b.Task("a")})
	n, err := b.Worker.Purge(b.Ctx)
	expect.OK(t, err)
	expect.Equal(t, "purged", n, 1)
	expect.Equal(t, "again", b.Say("a").Status, turnstile.Accepted)
}

// Whoever follows a message sees each piece of the reply once, also where a
// message was steered in between: then the reply is what came after it, or all.
func TestFollowASteeredTurn(t *testing.T) {
	t.Parallel()
	for name, reply := range map[string]string{"the reply is the rest": "and after it.", "the reply is all": "Before, and after it."} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			b.Say("a")
			h := b.Start()
			b.Say("b", session.ModeSteer)
			_, err := h.Steer(b.Ctx)
			expect.OK(t, err)
			turn := h.Turn().ID
			expect.OK(t, h.Emit(b.Ctx, []session.Event{
				{Type: "text", Turn: turn, Text: "Before, "}, {Type: session.EventSteered, Turn: turn, Messages: []string{"b"}},
				{Type: "text", Turn: turn, Text: "and after"},
			}))
			_, err = h.Finish(b.Ctx, protocol.End{Status: session.StatusDone, Reply: reply})
			expect.OK(t, err)
			for id, want := range map[string]string{"a": "Before, and after it.", "b": "and after it."} {
				said := ""
				_, err := b.Client.Follow(b.Ctx, actors.Key, id, func(e session.Event) { said += e.Text })
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
