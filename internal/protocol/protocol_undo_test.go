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

	"turnstile/internal/protocol"
	"turnstile/internal/rediskey"
	"turnstile/internal/stored"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// refuses checks the answer to a command whose arguments are wrong.
func refuses(b *actors.Bench, text, want string) {
	b.Helper()
	if got := b.Receipt(text, true).Reply; !strings.Contains(got, want) {
		b.Errorf("%s answers %q, want something with %q", text, got, want)
	}
}

// another is another sender.
func another(b *actors.Bench) *actors.Client { b.Helper(); return actors.NewClient(b.BareRedis()) }

func TestB75_Undo(t *testing.T) {
	t.Parallel()
	actors.OnceAndTwice(t, func(t *testing.T, b *actors.Bench) {
		b.Replies("/undo", "no turn yet")
		b.Replies("/retry", "no turn yet")
		b.SayAll("a", "b")
		b.Drain()
		sid := b.Info().SessionID
		// What cannot be read goes with the turn before it.
		b.Redis.RPush(b.Ctx, b.Keys.Transcript(sid), "not JSON", `{"turn":""}`, `{"turn":7}`)
		entries := b.Info().Entries
		b.Replies("/undo", "(5 entries): b")
		expect.List(t, "transcript", b.Transcript(sid), "a", "re: a")
		if b.Info().Entries <= entries {
			t.Error("nobody sees that the transcript has changed")
		}
		expect.Equal(t, "session id", b.Info().SessionID, sid)
		u, err := b.Client.Undo(b.Ctx, actors.Key)
		expect.OK(t, err)
		expect.Equal(t, "undone", u.Text, "a")
		expect.List(t, "transcript", b.Transcript(sid))
		b.Replies("/undo", "no turn yet")
	})
}

func TestB75_Retry(t *testing.T) {
	t.Parallel()
	actors.OnceAndTwice(t, func(t *testing.T, b *actors.Bench) {
		b.SayAll("a", "b")
		h := b.Start()
		b.Finish(h)
		expect.OK(t, h.Promote(b.Ctx))
		_, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusDone, Release: true, Entries: []session.Entry{
			{
				Role: session.RoleUser, Text: "b", Message: "b", Turn: h.Turn().ID, Meta: map[string]string{"from": "ann"},
				Attachments: []session.Attachment{{Name: "x", URL: "http://x"}},
			},
			{Role: session.RoleTool, Tool: &session.ToolUse{Name: "t"}, Turn: h.Turn().ID},
			{Role: session.RoleAssistant, Text: "poor", Turn: h.Turn().ID},
		}})
		expect.OK(t, err)
		b.Say("later")
		sid := b.Info().SessionID
		b.Redis.Del(b.Ctx, rediskey.Ready, rediskey.Due)
		b.Replies("/retry", "Running again: b")
		expect.Equal(t, "the workers are told", b.IsIn(rediskey.Ready, actors.Key), true)
		expect.List(t, "transcript", b.Transcript(sid), "a", "re: a")
		h = b.Start()
		m := h.Turn().Message
		expect.Equal(t, "message", m.Text+" "+m.Meta["from"]+" "+m.Attachments[0].URL, "b ann http://x")
		expect.Equal(t, "attempt", h.Turn().Attempt, 1)
		expect.Equal(t, "its id is new", m.ID != "b", true)
		b.Finish(h)
		expect.Equal(t, "then", h.Turn().Message.ID, "later")
		expect.Equal(t, "its end", b.Outcome(m.ID).Status, session.StatusDone)
		b.Finish(h)
		expect.List(t, "transcript", b.Transcript(sid), "a", "re: a", "b", "re: b", "later", "re: later")
		b.NothingLeft("at the end")
	})
}

// Refused, with a clear answer and nothing changed, while somebody owns the
// session; also somebody who has come since it was looked at.
func TestB75_RefusedWhileOwned(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"/undo", "/retry"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			b.Say("a")
			b.Drain()
			b.Say("b")
			h := b.Claim()
			was := b.Dump()
			b.Replies(command, "A turn is running")
			expect.OK(t, h.Promote(b.Ctx))
			b.Replies(command, "A turn is running")
			promoted := strings.NewReplacer(`phase="running"`, `phase="starting"`, fmt.Sprintf(` seq="%d 0"`, h.Turn().Fence), "")
			actors.Same(t, command, was, promoted.Replace(b.Dump()))
			b.Finish(h)
			b.Say("c")
			b.Redis.AddHook(actors.Before(actors.Script("undo"), sync.OnceFunc(func() { h = b.Start(); was = b.Dump() })))
			b.Replies(command, "A turn is running")
			actors.Same(t, command, was, b.Dump())
			b.Finish(h)
			expect.List(t, "transcript", b.Transcript(b.Info().SessionID), "a", "re: a", "b", "re: b", "c", "re: c")
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
			b := actors.NewBench(t)
			b.SayAll("a", "b", "c")
			b.Drain()
			sid := b.Info().SessionID
			other := another(b)
			b.Redis.AddHook(actors.Before(actors.Script("undo"), sync.OnceFunc(func() {
				u, err := c.first(other)(b.Ctx, actors.Key)
				expect.OK(t, err)
				expect.Equal(t, "the first one's", u.Text, "c")
			})))
			u, err := c.second(b.Client)(b.Ctx, actors.Key)
			expect.OK(t, err)
			expect.Equal(t, "the second one's", u.Text, "c")
			expect.Equal(t, "entries taken out", u.Entries, 2)
			expect.List(t, "transcript", b.Transcript(sid), "a", "re: a", "b", "re: b")
			expect.Equal(t, "runs again", len(b.Drain()), c.again)
			expect.Equal(t, "entries then", len(b.Transcript(sid)), 4+2*c.again)
		})
	}
}

// A turn that ends after /undo has looked is the last one then.
func TestB75_UndoFindsANewerTurn(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.SayAll("a", "b")
	b.Finish(b.Start())
	b.Redis.AddHook(actors.Before(actors.Script("undo"), sync.OnceFunc(func() { b.Die(); b.Drain() })))
	b.Die()
	u, err := b.Client.Undo(b.Ctx, actors.Key)
	expect.OK(t, err)
	expect.Equal(t, "undone", u.Text, "b")
	expect.List(t, "transcript", b.Transcript(b.Info().SessionID), "a", "re: a")
}

// The worker has taken the message when the lost answer of /retry is asked for
// again: it was done, not refused.
func TestB75_RetryRunsBeforeItIsAnswered(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	b.Drain()
	faults := &redistest.Faults{}
	b.Redis.AddHook(faults)
	b.Redis.AddHook(actors.Behind(actors.Script("undo"), sync.OnceFunc(func() { b.Claim() })))
	faults.RunTwice(actors.Script("undo"), 1)
	b.Replies("/retry", "Running again: a")
}

// An entry that cannot be read, by Go or only by Lua, goes with the turn before it.
func TestB75_UndoOfAnUnreadableEnd(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.SayAll("a", "b")
	b.Drain()
	sid := b.Info().SessionID
	b.Redis.RPush(b.Ctx, b.Keys.Transcript(sid), `{"turn":"x","at":NaN}`, `{"turn":"\ud800"`)
	u, err := b.Client.Undo(b.Ctx, actors.Key)
	expect.OK(t, err)
	expect.Equal(t, "undone", fmt.Sprint(u.Text, " ", u.Entries), "b 4")
	expect.List(t, "transcript", b.Transcript(sid), "a", "re: a")
}

// A turn of several messages goes as a whole, and is run again as one message.
func TestB75_CollectedAndSteered(t *testing.T) {
	t.Parallel()
	prepare := func(b *actors.Bench) {
		b.Say("a")
		h := b.Start()
		b.SayCollected("b", "c")
		b.Finish(h)
		expect.OK(b, h.Promote(b.Ctx))
		b.Say("d", session.ModeSteer)
		_, err := h.Steer(b.Ctx)
		expect.OK(b, err)
		end := b.Done(h)
		end.Entries = append(end.Entries, session.Entry{Role: session.RoleUser, Text: "d", Message: "d", Turn: h.Turn().ID})
		_, err = h.Finish(b.Ctx, end)
		expect.OK(b, err)
		expect.Equal(b, "entries", len(b.Transcript(h.Turn().SessionID)), 6)
	}
	t.Run("undo", func(t *testing.T) {
		t.Parallel()
		actors.OnceAndTwice(t, func(t *testing.T, b *actors.Bench) {
			prepare(b)
			u, err := b.Client.Undo(b.Ctx, actors.Key)
			expect.OK(t, err)
			expect.Equal(t, "undone", u.Text, "b\n\nc\n\nd")
			expect.Equal(t, "entries", u.Entries, 4)
			expect.List(t, "transcript", b.Transcript(b.Info().SessionID), "a", "re: a")
		})
	})
	t.Run("retry", func(t *testing.T) {
		t.Parallel()
		actors.OnceAndTwice(t, func(t *testing.T, b *actors.Bench) {
			prepare(b)
			_, err := b.Client.Retry(b.Ctx, actors.Key)
			expect.OK(t, err)
			h := b.Start()
			expect.Equal(t, "messages", len(actors.MessageIDs(h)), 1)
			expect.Equal(t, "text", h.Turn().Message.Text, "b\n\nc\n\nd")
			b.Finish(h)
			expect.List(t, "transcript", b.Transcript(h.Turn().SessionID), "a", "re: a", "b\n\nc\n\nd", "re: b\n\nc\n\nd")
		})
	})
	t.Run("retry of too much", func(t *testing.T) {
		t.Parallel()
		b := actors.NewBench(t)
		b.Say("a")
		h := b.Start()
		half := strings.Repeat("x", session.MaxTextLen/2)
		_, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusDone, Entries: []session.Entry{
			{Role: session.RoleUser, Text: half, Turn: h.Turn().ID}, {Role: session.RoleUser, Text: half, Turn: h.Turn().ID},
		}})
		expect.OK(t, err)
		b.Replies("/retry", "Nothing was changed: invalid message")
		expect.Equal(t, "entries", len(b.Transcript(h.Turn().SessionID)), 2)
	})
	t.Run("retry of a trimmed turn", func(t *testing.T) {
		t.Parallel()
		b := actors.NewBench(t, func(c *protocol.Config) { c.TranscriptCap = 1 })
		b.Say("a")
		b.Drain()
		b.Replies("/retry", "Nothing was changed: invalid message")
		expect.Equal(t, "entries", len(b.Transcript(b.Info().SessionID)), 1)
	})
}

// Turns with checkpoints, /undo and readers at once: a reader sees whole turns
// only, and a partial only of the turn that runs.
func TestB76_UndoRace(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	const turns = 60
	ctx, over := context.WithCancel(b.Ctx)
	var others, owner sync.WaitGroup
	undone, seen := 0, 0
	var last string
	others.Go(func() {
		client := another(b)
		for ctx.Err() == nil {
			_, err := client.Undo(b.Ctx, actors.Key)
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
			last = wholeTurns(b)
			seen++
		}
	})
	owner.Go(func() {
		for i := range turns {
			b.Say(fmt.Sprint("m", i))
			h := b.Claim()
			for j := range 3 {
				entries := []session.Entry{{Role: session.RoleAssistant, Text: fmt.Sprint(j), Turn: h.Turn().ID}}
				if err := h.Checkpoint(b.Ctx, entries); err != nil {
					t.Error(err)
				}
			}
			_, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusDone, Release: true, Entries: []session.Entry{
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
	expect.Equal(t, "entries left", len(b.Transcript(b.Info().SessionID)), 2*(turns-undone))
}

// wholeTurns reads a session's state at one moment and checks that it is one of
// the allowed ones.
func wholeTurns(b *actors.Bench) string {
	b.Helper()
	sid := b.Redis.HGet(b.Ctx, b.Keys.Record(), "session_id").Val()
	var lines *redis.StringSliceCmd
	var partial, sentinel *redis.StringCmd
	var run *redis.SliceCmd
	_, _ = b.Redis.TxPipelined(b.Ctx, func(p redis.Pipeliner) error {
		lines = p.LRange(b.Ctx, b.Keys.Transcript(sid), 0, -1)
		partial, sentinel = p.Get(b.Ctx, b.Keys.Partial()), p.Get(b.Ctx, b.Keys.Sentinel())
		run = p.HMGet(b.Ctx, b.Keys.Run(), "fence", "phase", "token")
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
	if slices.Contains(turns, rediskey.IDPrefix(actors.Key)+fmt.Sprint(run.Val()[0])) && sentinel.Val() != "" {
		b.Errorf("the turn that runs has entries already: %q, %v", turns, run.Val())
	}
	return fmt.Sprint(len(turns), " entries, ", run.Val()[1])
}

// What /retry puts in is asynq's as if asynq.Client had done it.
func TestContract_RetriedMessage(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	b.Drain()
	first, err := b.Inspector().GetTaskInfo(actors.Queue, b.Task("a"))
	expect.OK(t, err)
	b.Replies("/retry", "Running again")
	waiting := b.Waiting()
	expect.Equal(t, "waiting", len(waiting), 1)
	info, err := b.Inspector().GetTaskInfo(actors.Queue, b.Task(waiting[0]))
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
	stop := b.StockServer(func(_ context.Context, task *asynq.Task) error {
		m, err := session.DecodePayload(task.Payload())
		ran <- m.Text
		return err
	})
	expect.Equal(t, "a stock server runs", <-ran, "a")
	expect.Soon(t, "its end", func() bool { return b.Redis.Exists(b.Ctx, b.Keys.Pending(), b.Keys.Active()).Val() == 0 })
	stop()
	b.ClaimNothing("all was run")
}
