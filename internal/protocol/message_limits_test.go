package protocol_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"turnstile"
	sq "turnstile/internal/protocol"
	"turnstile/pkg/session"
	"turnstile/test/expect"
)

// overLimits are messages that have too much of one thing, by what that is.
func overLimits() map[string]session.Message {
	many := make([]session.Attachment, 101)
	for i := range many {
		many[i] = session.Attachment{Name: "a", URL: "https://example.com/a"}
	}
	long := session.Attachment{Name: strings.Repeat("x", 2<<20), URL: "https://example.com/a"}
	return map[string]session.Message{
		"text":            {Text: strings.Repeat("x", 1<<20+1)},
		"meta":            {Text: "a", Meta: map[string]string{"k": strings.Repeat("x", 64<<10)}},
		"101 attachments": {Text: "a", Attachments: many},
		"bytes in JSON":   {Text: "a", Attachments: []session.Attachment{long}},
	}
}

// A sender is told of each limit by an error of its own, and nothing is stored.
func TestSubmitRefusesWhatIsTooLarge(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for what, m := range overLimits() {
		m.ID = "m"
		_, err := b.client.Submit(b.ctx, key, m)
		if !errors.Is(err, session.ErrInvalid) || !strings.Contains(fmt.Sprint(err), what) {
			t.Errorf("%s: %.200v", what, err)
		}
		expect.Equal(t, what+": keys", len(b.rdb.Keys(b.ctx, "*").Val()), 0)
		b.rdb.FlushDB(b.ctx) // at the version before it is stored
	}
}

// What a plain asynq.Client has put in is judged by the worker: a message over a limit is
// no message, and the next one runs.
func TestPlainMessagesOverALimit(t *testing.T) {
	t.Parallel()
	for what, m := range overLimits() {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			payload, err := m.EncodePayload()
			expect.OK(t, err)
			b.enqueueRaw(session.TaskType, string(payload), b.task("large"))
			h := b.claim()
			if err := h.Turn().Err; !errors.Is(err, session.ErrInvalid) || !strings.Contains(fmt.Sprint(err), what) {
				t.Errorf("%.200v", err)
			}
		})
	}
}

// What is far too long does not leave Redis: a claim archives it unread, and the archive
// keeps its length, not its content. It is told to whoever waits.
func TestTooLongToBeRead(t *testing.T) {
	t.Parallel()
	large := `{"v":1,"text":"x","meta":{"k":"` + strings.Repeat("x", 3<<20) + `"}}`
	b := newBench(t)
	for i := range 3 {
		b.enqueueRaw(session.TaskType, large, b.task(fmt.Sprint("large", i)))
	}
	b.say("small")
	for b.state("large2") == "pending" {
		if holds, err := b.c.Claim(b.ctx, []string{key}); err != nil || len(holds) > 0 {
			t.Fatalf("claimed %d: %v", len(holds), err)
		}
		expect.Equal(t, "is to be claimed again", b.rdb.ZScore(b.ctx, "turnstile:ready", key).Err(), nil)
	}
	for i := range 3 {
		id := fmt.Sprint("large", i)
		expect.Equal(t, "state", b.state(id), "archived")
		if n := b.rdb.HStrLen(b.ctx, b.k.Task(b.task(id)), "msg").Val(); n > 1000 {
			t.Errorf("%d bytes are kept", n)
		}
		o := b.outcome(id)
		expect.Equal(t, "status", o.Status, session.StatusFailed)
		if !strings.Contains(o.Error, "bytes, at most 2359296 are allowed; its content was not kept") {
			t.Errorf("error: %s", o.Error)
		}
		info := b.inspect(id)
		expect.Equal(t, "asynqmon: its error", info.LastErr, o.Error)
		expect.Equal(t, "asynqmon: its queue and type", info.Queue+" "+info.Type, "session:"+key+" turnstile:message")
	}
	expect.List(t, "runs", b.drain(), "small")
	expect.Equal(t, "dead letters", len(b.dead(key)), 3)
	n, err := b.client.Rerun(b.ctx, key)
	expect.OK(t, err)
	expect.Equal(t, "run again", n, 3)
	if err := b.claim().Turn().Err; !errors.Is(err, session.ErrInvalid) || !strings.Contains(err.Error(), "was not kept") {
		t.Errorf("%v", err)
	}
}

// It is not steered in either, not taken behind another, and a stop and a full line archive
// it as they do others.
func TestTooLongElsewhere(t *testing.T) {
	t.Parallel()
	large := `{"v":1,"text":"x","meta":{"k":"` + strings.Repeat("x", 3<<20) + `"}}`
	put := func(b *bench, id string) { b.enqueueRaw(session.TaskType, large, b.task(id)) }
	short := func(b *bench, id string) {
		b.Helper()
		expect.Equal(b, "state", b.state(id), "archived")
		if n := b.rdb.HStrLen(b.ctx, b.k.Task(b.task(id)), "msg").Val(); n > 1000 {
			b.Errorf("%d bytes are kept", n)
		}
	}
	t.Run("steer", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.say("a")
		h := b.start()
		put(b, "s")
		expect.Equal(t, "another Submit of it", b.say("s", session.ModeSteer).Status, turnstile.Duplicate)
		steered, err := h.Steer(b.ctx)
		expect.OK(t, err)
		expect.Equal(t, "steered", len(steered), 0)
		more, err := h.Finish(b.ctx, sq.End{Status: session.StatusDone})
		expect.OK(t, err)
		expect.Equal(t, "the next turn takes it", more, false)
		b.claimNothing("it is archived")
		short(b, "s")
	})
	t.Run("stop", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		put(b, "p")
		_, err := b.client.Stop(b.ctx, key)
		expect.OK(t, err)
		short(b, "p")
	})
	t.Run("full", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, func(c *sq.Config) { c.Line.Cap, c.Line.Drop = 1, "old" })
		b.say("a")
		b.start()
		put(b, "p")
		b.say("b")
		short(b, "p")
		expect.List(t, "the line", b.waiting(), "b")
	})
	t.Run("a dead owner's", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.say("a")
		b.start()
		expect.OK(t, b.rdb.HSet(b.ctx, b.k.Task(b.task("a")), "msg", strings.Repeat("x", 3<<20)).Err())
		b.die()
		b.claimNothing("it comes back")
		b.claimNothing("and is archived")
		short(b, "a")
	})
}

// An error of many bytes, as an agent's, is cut; with retries the task does not grow by
// more than that.
func TestLongErrors(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.say("a")
	long := errors.New(strings.Repeat("ä", 1<<20))
	for range 3 {
		h := b.start()
		expect.OK(t, h.Retry(b.ctx, long, 0))
	}
	if n := b.rdb.HStrLen(b.ctx, b.k.Task(b.task("a")), "msg").Val(); n > 4000 {
		t.Errorf("the task has %d bytes", n)
	}
	_, err := b.start().Finish(b.ctx, sq.End{Status: session.StatusFailed, Error: long.Error()})
	expect.OK(t, err)
	if n := len(b.outcome("a").Error); n < 16<<10 || n > 17<<10 {
		t.Errorf("the error has %d bytes", n)
	}
}
