package protocol_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	sq "turnstile/internal/protocol"
	"turnstile/internal/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// A stop means all that waits when it comes, whatever becomes of any one message
// while it is archived: that a full line refuses the newest, say.
func TestStopBesideRefusals(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const n = 1100
	b.say("now")
	b.start()
	for i := range n {
		b.enqueue(fmt.Sprint("m", i))
	}
	calls := 0
	b.rdb.AddHook(behind(called("stop"), func() {
		if calls++; calls == 1 { // what ring does with the newest if it refuses it
			id := b.task(fmt.Sprint("m", n-1))
			expect.OK(t, b.rdb.LRem(b.ctx, b.k.Pending(), 1, id).Err())
			expect.OK(t, b.rdb.Del(b.ctx, b.k.Task(id)).Err())
		}
	}))
	_, err := b.client.Stop(b.ctx, key)
	expect.OK(t, err)
	expect.Equal(t, "messages left", len(b.waiting()), 0)
	if got := b.info().Archived; got < n-1 {
		t.Errorf("%d archived, want %d", got, n-1)
	}
}

// stopAndDie stops as a sender who dies behind one of its calls.
func (b *bench) stopAndDie(match redistest.Match) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.ctx)
	defer cancel()
	dying := b.bare()
	dying.AddHook(behind(match, cancel))
	if _, err := actors.NewClient(dying).Stop(ctx, key); !errors.Is(err, context.Canceled) {
		b.Fatalf("the stop of a sender who dies: %v", err)
	}
}

// work runs what is ready, as workers do, and answers the messages' ids.
func (b *bench) work() (ids []string) {
	b.Helper()
	for b.isIn(rediskey.Ready, key) {
		b.rdb.Del(b.ctx, rediskey.Ready)
		ids = append(ids, b.drain()...)
	}
	return ids
}

// Of a stop whose sender has died claims archive the rest, before they take anything.
func TestStopWhoseSenderDies(t *testing.T) {
	t.Parallel()
	const n = 1100
	line := func(b *bench) {
		for i := range n {
			b.enqueue(fmt.Sprint("m", i))
		}
	}
	t.Run("idle", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		line(b)
		b.stopAndDie(called("stop"))
		expect.Equal(t, "archived by the sender", b.info().Archived, 500)
		b.say("later")
		expect.List(t, "runs", b.work(), "later")
		b.nothingAside(n)
	})
	for name, later := range map[string][]string{"running": nil, "running, with more to come": {"later"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.say("now")
			h := b.start()
			line(b)
			b.stopAndDie(called("stop"))
			b.sayAll(later...)
			more, err := h.Finish(b.ctx, sq.End{Status: session.StatusStopped})
			expect.OK(t, err)
			for more {
				more = b.finish(h)
			}
			expect.List(t, "runs", b.work())
			b.nothingAside(n + 1)
		})
	}
}

// A worker finds what a dead sender's stop has left, though nobody sends any more.
func TestStoppedMessagesAreFound(t *testing.T) {
	t.Parallel()
	const n = 1100
	for by, look := range map[string]func(b *bench){
		"reap":  func(b *bench) { b.stopAndDie(redistest.Named("zadd")); b.overdue(rediskey.Owned); b.reap() },
		"sweep": func(b *bench) { b.stopAndDie(called("stop")); b.sweep() },
	} {
		t.Run(by, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			for i := range n {
				b.enqueue(fmt.Sprint("m", i))
			}
			look(b)
			expect.List(t, "runs", b.work())
			b.nothingAside(n)
		})
	}
}

// nothingAside wants n messages in the archive, and none that a stop has put aside.
func (b *bench) nothingAside(n int) {
	b.Helper()
	expect.Equal(b, "archived", b.info().Archived, n)
	expect.Equal(b, "put aside", b.rdb.LLen(b.ctx, b.k.Stopped()).Val(), 0)
	expect.Equal(b, "marked", b.rdb.HGet(b.ctx, b.k.Run(), "stopping").Val(), "")
	expect.List(b, "the line", b.waiting())
}

// A stop behind one whose sender has died archives that one's messages, too.
func TestStopBehindAnother(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.say("now")
	h := b.start()
	for i := range 1100 {
		b.enqueue(fmt.Sprint("m", i))
	}
	b.stopAndDie(called("stop"))
	b.sayAll("a", "b")
	s, err := b.client.Stop(b.ctx, key)
	expect.OK(t, err)
	expect.Equal(t, "stopped", s, session.Stopped{Phase: "running", Fence: h.Turn().Fence, Dropped: 2})
	expect.Equal(t, "archived", b.info().Archived, 1102)
	expect.List(t, "the line", b.waiting())
}

// A stop tells how many messages it means, also where workers have archived some of them.
func TestStopCountsWhatWorkersArchive(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const n = 1203
	for i := range n {
		b.enqueue(fmt.Sprint("m", i))
	}
	calls := 0
	b.rdb.AddHook(behind(called("stop"), func() {
		if calls++; calls == 2 {
			w := newWorker(b.T, b.bare(), "two")
			holds, err := w.Claim(b.ctx, []string{key})
			expect.OK(t, err)
			expect.Equal(t, "holds", len(holds), 0)
		}
	}))
	s, err := b.client.Stop(b.ctx, key)
	expect.OK(t, err)
	expect.Equal(t, "dropped", s.Dropped, n)
	expect.Equal(t, "archived", b.info().Archived, n)
}

// heldBack keeps a script's call from Redis, which its sender takes for a failure, and
// has it delivered later.
type heldBack struct {
	script string
	call   []any
}

func (h *heldBack) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *heldBack) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if h.call == nil && called(h.script)(cmd) {
			h.call = slices.Clone(cmd.Args())
			cmd.SetErr(redistest.ErrLostReply)
			return redistest.ErrLostReply
		}
		return next(ctx, cmd)
	}
}

func (h *heldBack) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// deliver lets the call through, and answers what Redis says.
func (h *heldBack) deliver(b *bench) string {
	b.Helper()
	if h.call == nil {
		b.Fatal("nothing was held back")
	}
	if h.call[0] == "evalsha" {
		b.load(h.script)
	}
	reply, err := b.rdb.Do(b.ctx, h.call...).Result()
	expect.OK(b, err)
	return fmt.Sprint(reply)
}

// pass waits for Redis' clock.
func (b *bench) pass(d time.Duration) {
	b.Helper()
	end := b.redisTime().Add(d)
	expect.Soon(b, "Redis' clock", func() bool { return b.redisTime().After(end) })
}

func (b *bench) redisTime() time.Time {
	b.Helper()
	at, err := b.rdb.Time(b.ctx).Result()
	expect.OK(b, err)
	return at
}

// A /stop that a network delivers after its sender has given up means nothing that has
// come since.
func TestLateStop(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.say("a")
	late := &heldBack{script: "stop"}
	b.rdb.AddHook(late)
	ctx, cancel := context.WithTimeout(b.ctx, 300*time.Millisecond)
	defer cancel()
	if _, err := b.client.Stop(ctx, key); err == nil {
		t.Fatal("the stop was not held back")
	}
	b.finish(b.start())
	b.say("b")
	h := b.start()
	b.say("c")
	b.pass(310 * time.Millisecond)
	expect.Equal(t, "answer", late.deliver(b), "[late]")
	expect.List(t, "the line", b.waiting(), "c")
	if r := b.c.Renew(b.ctx, []*sq.Claim{h})[0]; r.Requested != nil {
		t.Errorf("the turn is asked %v", r.Requested)
	}
}

// A /new that comes late is not meant for a conversation that has begun since: it names
// the one that it saw.
func TestLateRotation(t *testing.T) {
	t.Parallel()
	for _, known := range []bool{true, false} {
		t.Run(map[bool]string{true: "of a conversation", false: "of nothing"}[known], func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			if known {
				b.say("a")
				b.drain()
			}
			late := &heldBack{script: "rotate"}
			b.rdb.AddHook(late)
			ctx, cancel := context.WithTimeout(b.ctx, 300*time.Millisecond)
			defer cancel()
			if _, err := b.client.Rotate(ctx, key, ""); err == nil {
				t.Fatal("the rotation was not held back")
			}
			if known { // what it saw is gone: no time is to pass
				_, err := b.client.Rotate(b.ctx, key, "")
				expect.OK(t, err)
			} else {
				b.pass(310 * time.Millisecond)
			}
			b.say("b")
			b.drain()
			id := b.info().SessionID
			late.deliver(b)
			expect.Equal(t, "session id", b.info().SessionID, id)
		})
	}
}

// slowly answers a look at the clock as it was a while ago.
type slowly struct{ ago time.Duration }

func (slowly) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s slowly) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if call, ok := cmd.(*redis.Cmd); ok && err == nil && called("look")(cmd) {
			answer, _ := call.Slice()
			answer[0] = answer[0].(int64) - s.ago.Milliseconds()
			call.SetVal(answer)
		}
		return err
	}
}

func (slowly) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// The user is told that nothing has happened.
func TestTooLateIsSaid(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.say("a")
	b.drain()
	b.say("b")
	id := b.info().SessionID
	b.rdb.AddHook(slowly{ago: time.Minute})
	_, stop := b.client.Stop(b.ctx, key)
	_, rotate := b.client.Rotate(b.ctx, key, "")
	for name, err := range map[string]error{"stop": stop, "rotate": rotate} {
		if !errors.Is(err, session.ErrUnchanged) || !strings.Contains(err.Error(), "too late") {
			t.Errorf("%s: %v", name, err)
		}
	}
	expect.List(t, "the line", b.waiting(), "b")
	expect.Equal(t, "session id", b.info().SessionID, id)
}

// A stop's answer is its own: another one's does not take its place, so that its
// repetition stops nobody else's turn.
func TestStopSentAgainBehindAnother(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.say("a")
	h := b.start()
	fence := h.Turn().Fence
	other := b.another()
	b.rdb.AddHook(between(called("stop"), func() {
		_, err := other.Stop(b.ctx, key)
		expect.OK(t, err)
		_, err = h.Finish(b.ctx, sq.End{Status: session.StatusStopped})
		expect.OK(t, err)
		b.say("b")
		h = b.start()
	}))
	s, err := b.client.Stop(b.ctx, key)
	expect.OK(t, err)
	expect.Equal(t, "stopped", s, session.Stopped{Phase: "running", Fence: fence})
	if r := b.c.Renew(b.ctx, []*sq.Claim{h})[0]; r.Requested != nil {
		t.Errorf("the next turn is asked %v", r.Requested)
	}
}

// A stop of a session that nobody knows leaves nothing.
func TestStopOfNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, err := b.client.Stop(b.ctx, key)
	expect.OK(t, err)
	keys, err := b.rdb.Keys(b.ctx, "*{session:"+key+"}*").Result()
	expect.OK(t, err)
	expect.List(t, "keys", keys)
	b.say("a", session.ModeReject)
	expect.List(t, "runs", b.drain(), "a")
}
