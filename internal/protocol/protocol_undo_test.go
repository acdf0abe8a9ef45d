package protocol_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"turnstile"
	sq "turnstile/internal/protocol"
	"turnstile/internal/rediskey"
	"turnstile/internal/stored"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// command carries out a slash command as a user says it.
func (b *bench) command(text string) string {
	b.Helper()
	return b.receipt(text, false).Reply
}

// receipt is that of a command; invalid is what it is to say of its arguments.
func (b *bench) receipt(text string, invalid bool) turnstile.Receipt {
	b.Helper()
	r, err := b.client.Submit(b.ctx, key, session.Message{Text: text})
	expect.OK(b, err)
	expect.Equal(b, "status of "+text, r.Status, turnstile.Answered)
	expect.Equal(b, "invalid: "+text, r.Invalid, invalid)
	return r
}

// refuses checks the answer to a command whose arguments are wrong.
func (b *bench) refuses(text, want string) {
	b.Helper()
	if got := b.receipt(text, true).Reply; !strings.Contains(got, want) {
		b.Errorf("%s answers %q, want something with %q", text, got, want)
	}
}

// answers checks a command's answer.
func (b *bench) answers(text, want string) {
	b.Helper()
	if got := b.command(text); !strings.Contains(got, want) {
		b.Errorf("%s answers %q, want something with %q", text, got, want)
	}
}

// bare is a client of the same database whose commands no hook sees.
func (b *bench) bare() *redis.Client {
	b.Helper()
	rdb := redis.NewClient(b.rdb.(*redis.Client).Options())
	b.Cleanup(func() { rdb.Close() })
	return rdb
}

// another is another sender.
func (b *bench) another() *actors.Client { b.Helper(); return actors.NewClient(b.bare()) }

func TestB75_Undo(t *testing.T) {
	t.Parallel()
	onceAndTwice(t, func(t *testing.T, b *bench) {
		b.answers("/undo", "no turn yet")
		b.answers("/retry", "no turn yet")
		b.sayAll("a", "b")
		b.drain()
		sid := b.info().SessionID
		// What cannot be read goes with the turn before it.
		b.rdb.RPush(b.ctx, b.k.Transcript(sid), "not JSON", `{"turn":""}`, `{"turn":7}`)
		entries := b.info().Entries
		b.answers("/undo", "(5 entries): b")
		expect.List(t, "transcript", b.transcript(sid), "a", "re: a")
		if b.info().Entries <= entries {
			t.Error("nobody sees that the transcript has changed")
		}
		expect.Equal(t, "session id", b.info().SessionID, sid)
		u, err := b.client.Undo(b.ctx, key)
		expect.OK(t, err)
		expect.Equal(t, "undone", u.Text, "a")
		expect.List(t, "transcript", b.transcript(sid))
		b.answers("/undo", "no turn yet")
	})
}

func TestB75_Retry(t *testing.T) {
	t.Parallel()
	onceAndTwice(t, func(t *testing.T, b *bench) {
		b.sayAll("a", "b")
		h := b.start()
		b.finish(h)
		expect.OK(t, h.Promote(b.ctx))
		_, err := h.Finish(b.ctx, sq.End{Status: session.StatusDone, Release: true, Entries: []session.Entry{
			{
				Role: session.RoleUser, Text: "b", Message: "b", Turn: h.Turn().ID, Meta: map[string]string{"from": "ann"},
				Attachments: []session.Attachment{{Name: "x", URL: "http://x"}},
			},
			{Role: session.RoleTool, Tool: &session.ToolUse{Name: "t"}, Turn: h.Turn().ID},
			{Role: session.RoleAssistant, Text: "poor", Turn: h.Turn().ID},
		}})
		expect.OK(t, err)
		b.say("later")
		sid := b.info().SessionID
		b.rdb.Del(b.ctx, rediskey.Ready, rediskey.Due)
		b.answers("/retry", "Running again: b")
		expect.Equal(t, "the workers are told", b.isIn(rediskey.Ready, key), true)
		expect.List(t, "transcript", b.transcript(sid), "a", "re: a")
		h = b.start()
		m := h.Turn().Message
		expect.Equal(t, "message", m.Text+" "+m.Meta["from"]+" "+m.Attachments[0].URL, "b ann http://x")
		expect.Equal(t, "attempt", h.Turn().Attempt, 1)
		expect.Equal(t, "its id is new", m.ID != "b", true)
		b.finish(h)
		expect.Equal(t, "then", h.Turn().Message.ID, "later")
		expect.Equal(t, "its end", b.outcome(m.ID).Status, session.StatusDone)
		b.finish(h)
		expect.List(t, "transcript", b.transcript(sid), "a", "re: a", "b", "re: b", "later", "re: later")
		b.nothingLeft("at the end")
	})
}

// Refused, with a clear answer and nothing changed, while somebody owns the
// session; also somebody who has come since it was looked at.
func TestB75_RefusedWhileOwned(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"/undo", "/retry"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.say("a")
			b.drain()
			b.say("b")
			h := b.claim()
			was := b.dump()
			b.answers(command, "A turn is running")
			expect.OK(t, h.Promote(b.ctx))
			b.answers(command, "A turn is running")
			promoted := strings.NewReplacer(`phase="running"`, `phase="starting"`, fmt.Sprintf(` seq="%d 0"`, h.Turn().Fence), "")
			same(t, command, was, promoted.Replace(b.dump()))
			b.finish(h)
			b.say("c")
			b.rdb.AddHook(before(called("undo"), sync.OnceFunc(func() { h = b.start(); was = b.dump() })))
			b.answers(command, "A turn is running")
			same(t, command, was, b.dump())
			b.finish(h)
			expect.List(t, "transcript", b.transcript(b.info().SessionID), "a", "re: a", "b", "re: b", "c", "re: c")
		})
	}
}

// Two that mean the same turn: it goes once, and is run again once if anybody said so.
func TestB75_TwoAtOnce(t *testing.T) {
	t.Parallel()
	type command func(context.Context, string) (session.Undone, error)
	undo := func(c *actors.Client) command { return c.Undo }
	retry := func(c *actors.Client) command { return c.Retry }
	for name, c := range map[string]struct {
		first, second func(*actors.Client) command
		again         int
	}{
		"undo, undo":   {undo, undo, 0},
		"undo, retry":  {undo, retry, 1},
		"retry, undo":  {retry, undo, 1},
		"retry, retry": {retry, retry, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.sayAll("a", "b", "c")
			b.drain()
			sid := b.info().SessionID
			other := b.another()
			b.rdb.AddHook(before(called("undo"), sync.OnceFunc(func() {
				u, err := c.first(other)(b.ctx, key)
				expect.OK(t, err)
				expect.Equal(t, "the first one's", u.Text, "c")
			})))
			u, err := c.second(b.client)(b.ctx, key)
			expect.OK(t, err)
			expect.Equal(t, "the second one's", u.Text, "c")
			expect.Equal(t, "entries taken out", u.Entries, 2)
			expect.List(t, "transcript", b.transcript(sid), "a", "re: a", "b", "re: b")
			expect.Equal(t, "runs again", len(b.drain()), c.again)
			expect.Equal(t, "entries then", len(b.transcript(sid)), 4+2*c.again)
		})
	}
}

// A turn that ends after /undo has looked is the last one then.
func TestB75_UndoFindsANewerTurn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.sayAll("a", "b")
	b.finish(b.start())
	b.rdb.AddHook(before(called("undo"), sync.OnceFunc(func() { b.die(); b.drain() })))
	b.die()
	u, err := b.client.Undo(b.ctx, key)
	expect.OK(t, err)
	expect.Equal(t, "undone", u.Text, "b")
	expect.List(t, "transcript", b.transcript(b.info().SessionID), "a", "re: a")
}

// The worker has taken the message when the lost answer of /retry is asked for
// again: it was done, not refused.
func TestB75_RetryRunsBeforeItIsAnswered(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.say("a")
	b.drain()
	faults := &redistest.Faults{}
	b.rdb.AddHook(faults)
	b.rdb.AddHook(behind(called("undo"), sync.OnceFunc(func() { b.claim() })))
	faults.RunTwice(called("undo"), 1)
	b.answers("/retry", "Running again: a")
}

// An entry that cannot be read, by Go or only by Lua, goes with the turn before it.
func TestB75_UndoOfAnUnreadableEnd(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.sayAll("a", "b")
	b.drain()
	sid := b.info().SessionID
	b.rdb.RPush(b.ctx, b.k.Transcript(sid), `{"turn":"x","at":NaN}`, `{"turn":"\ud800"`)
	u, err := b.client.Undo(b.ctx, key)
	expect.OK(t, err)
	expect.Equal(t, "undone", fmt.Sprint(u.Text, " ", u.Entries), "b 4")
	expect.List(t, "transcript", b.transcript(sid), "a", "re: a")
}

// A turn of several messages goes as a whole, and is run again as one message.
func TestB75_CollectedAndSteered(t *testing.T) {
	t.Parallel()
	prepare := func(b *bench) {
		b.say("a")
		h := b.start()
		b.collected("b", "c")
		b.finish(h)
		expect.OK(b, h.Promote(b.ctx))
		b.say("d", session.ModeSteer)
		_, err := h.Steer(b.ctx)
		expect.OK(b, err)
		end := b.done(h)
		end.Entries = append(end.Entries, session.Entry{Role: session.RoleUser, Text: "d", Message: "d", Turn: h.Turn().ID})
		_, err = h.Finish(b.ctx, end)
		expect.OK(b, err)
		expect.Equal(b, "entries", len(b.transcript(h.Turn().SessionID)), 6)
	}
	t.Run("undo", func(t *testing.T) {
		t.Parallel()
		onceAndTwice(t, func(t *testing.T, b *bench) {
			prepare(b)
			u, err := b.client.Undo(b.ctx, key)
			expect.OK(t, err)
			expect.Equal(t, "undone", u.Text, "b\n\nc\n\nd")
			expect.Equal(t, "entries", u.Entries, 4)
			expect.List(t, "transcript", b.transcript(b.info().SessionID), "a", "re: a")
		})
	})
	t.Run("retry", func(t *testing.T) {
		t.Parallel()
		onceAndTwice(t, func(t *testing.T, b *bench) {
			prepare(b)
			_, err := b.client.Retry(b.ctx, key)
			expect.OK(t, err)
			h := b.start()
			expect.Equal(t, "messages", len(group(h)), 1)
			expect.Equal(t, "text", h.Turn().Message.Text, "b\n\nc\n\nd")
			b.finish(h)
			expect.List(t, "transcript", b.transcript(h.Turn().SessionID), "a", "re: a", "b\n\nc\n\nd", "re: b\n\nc\n\nd")
		})
	})
	t.Run("retry of too much", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.say("a")
		h := b.start()
		half := strings.Repeat("x", session.MaxTextLen/2)
		_, err := h.Finish(b.ctx, sq.End{Status: session.StatusDone, Entries: []session.Entry{
			{Role: session.RoleUser, Text: half, Turn: h.Turn().ID}, {Role: session.RoleUser, Text: half, Turn: h.Turn().ID},
		}})
		expect.OK(t, err)
		b.answers("/retry", "Nothing was changed: invalid message")
		expect.Equal(t, "entries", len(b.transcript(h.Turn().SessionID)), 2)
	})
	t.Run("retry of a trimmed turn", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, func(c *sq.Config) { c.TranscriptCap = 1 })
		b.say("a")
		b.drain()
		b.answers("/retry", "Nothing was changed: invalid message")
		expect.Equal(t, "entries", len(b.transcript(b.info().SessionID)), 1)
	})
}

// Turns with checkpoints, /undo and readers at once: a reader sees whole turns
// only, and a partial only of the turn that runs.
func TestB76_UndoRace(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const turns = 60
	ctx, over := context.WithCancel(b.ctx)
	var others, owner sync.WaitGroup
	undone, seen := 0, 0
	var last string
	others.Go(func() {
		client := b.another()
		for ctx.Err() == nil {
			_, err := client.Undo(b.ctx, key)
			switch {
			case err == nil:
				undone++
			case !errors.Is(err, session.ErrBusy) && !errors.Is(err, session.ErrNoTurn):
				t.Error(err)
			}
		}
	})
	others.Go(func() {
		for ctx.Err() == nil {
			last = b.wholeTurns()
			seen++
		}
	})
	owner.Go(func() {
		for i := range turns {
			b.say(fmt.Sprint("m", i))
			h := b.claim()
			for j := range 3 {
				entries := []session.Entry{{Role: session.RoleAssistant, Text: fmt.Sprint(j), Turn: h.Turn().ID}}
				if err := h.Checkpoint(b.ctx, entries); err != nil {
					t.Error(err)
				}
			}
			_, err := h.Finish(b.ctx, sq.End{Status: session.StatusDone, Release: true, Entries: []session.Entry{
				{Role: session.RoleUser, Text: "u", Turn: h.Turn().ID}, {Role: session.RoleAssistant, Text: "a", Turn: h.Turn().ID},
			}})
			if err != nil {
				t.Error(err)
			}
		}
	})
	owner.Wait()
	over()
	others.Wait()
	t.Logf("%d of %d turns were undone, %d states were seen, the last one %s", undone, turns, seen, last)
	expect.Equal(t, "entries left", len(b.transcript(b.info().SessionID)), 2*(turns-undone))
}

// wholeTurns reads a session's state at one moment and checks that it is one of
// the allowed ones.
func (b *bench) wholeTurns() string {
	b.Helper()
	sid := b.rdb.HGet(b.ctx, b.k.Record(), "session_id").Val()
	var lines *redis.StringSliceCmd
	var partial, sentinel *redis.StringCmd
	var run *redis.SliceCmd
	_, _ = b.rdb.TxPipelined(b.ctx, func(p redis.Pipeliner) error {
		lines = p.LRange(b.ctx, b.k.Transcript(sid), 0, -1)
		partial, sentinel = p.Get(b.ctx, b.k.Partial()), p.Get(b.ctx, b.k.Sentinel())
		run = p.HMGet(b.ctx, b.k.Run(), "fence", "phase", "token")
		return nil
	})
	var turns []string
	for _, l := range lines.Val() {
		turns = append(turns, stored.DecodeEntry(l).Turn)
	}
	for i, turn := range turns {
		if turn != turns[i^1] || i >= 2 && i%2 == 0 && turn <= turns[i-1] {
			b.Errorf("entries of half a turn: %q", turns)
			break
		}
	}
	if text := partial.Val(); text != "" {
		var p struct{ Fence json.Number }
		expect.OK(b, json.Unmarshal([]byte(text), &p))
		if sentinel.Val() == "" || run.Val()[0] != p.Fence.String() || run.Val()[2] != sentinel.Val() {
			b.Errorf("a partial of turn %s beside %v and the sentinel %q", p.Fence, run.Val(), sentinel.Val())
		}
	}
	if slices.Contains(turns, rediskey.IDPrefix(key)+fmt.Sprint(run.Val()[0])) && sentinel.Val() != "" {
		b.Errorf("the turn that runs has entries already: %q, %v", turns, run.Val())
	}
	return fmt.Sprint(len(turns), " entries, ", run.Val()[1])
}

// What /retry puts in is asynq's as if asynq.Client had done it.
func TestContract_RetriedMessage(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.say("a")
	b.drain()
	first, err := b.inspector().GetTaskInfo(queue, b.task("a"))
	expect.OK(t, err)
	b.answers("/retry", "Running again")
	waiting := b.waiting()
	expect.Equal(t, "waiting", len(waiting), 1)
	info, err := b.inspector().GetTaskInfo(queue, b.task(waiting[0]))
	expect.OK(t, err)
	expect.Equal(t, "state", info.State, asynq.TaskStatePending)
	expect.Equal(t, "type", info.Type, first.Type)
	expect.Equal(t, "queue", info.Queue, first.Queue)
	expect.Equal(t, "payload", string(info.Payload), string(first.Payload))
	expect.Equal(t, "retries", info.MaxRetry, first.MaxRetry)
	expect.Equal(t, "retried", info.Retried, 0)
	expect.Equal(t, "timeout", info.Timeout, first.Timeout)
	expect.Equal(t, "deadline", info.Deadline, first.Deadline)

	ran := make(chan string, 1)
	stop := b.server(func(_ context.Context, task *asynq.Task) error {
		m, err := session.DecodePayload(task.Payload())
		ran <- m.Text
		return err
	})
	expect.Equal(t, "a stock server runs", <-ran, "a")
	expect.Soon(t, "its end", func() bool { return b.rdb.Exists(b.ctx, b.k.Pending(), b.k.Active()).Val() == 0 })
	stop()
	b.claimNothing("all was run")
}
