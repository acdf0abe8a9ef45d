package turnstile_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// another makes another sender.
func another(b *actors.Bench) *actors.Client { b.Helper(); return actors.NewClient(b.BareRedis()) }

func TestB75_Undo(t *testing.T) {
	t.Parallel()
	actors.OnceAndTwice(t, func(t *testing.T, b *actors.Bench) {
		b.Replies("/undo", "no turn yet")
		b.Replies("/retry", "no turn yet")
		b.SayAll("a", "b")
		b.Drain()
		sid := b.Info().TranscriptID
		// An unreadable entry belongs to the turn before it.
		b.Redis.RPush(b.Ctx, b.Keys.Transcript(sid), "not JSON", `{"turn":""}`, `{"turn":7}`)
		entries := b.Info().Entries
		b.Replies("/undo", "(5 entries): b")
		expect.List(t, "transcript", b.Transcript(sid), "a", "re: a")
		if b.Info().Entries <= entries {
			t.Error("nobody sees that the transcript has changed")
		}
		expect.Equal(t, "session id", b.Info().TranscriptID, sid)
		u, err := b.Client.Session(actors.Key).Undo(b.Ctx)
		expect.OK(t, err)
		expect.Equal(t, "undone", u.Text, "a")
		expect.List(t, "transcript", b.Transcript(sid))
		b.Replies("/undo", "no turn yet")
	})
}

// Undo and retry are refused, with a clear reply and nothing changed, while a worker owns the
// session, also a worker that claimed it since the look.
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
			expect.List(t, "transcript", b.Transcript(b.Info().TranscriptID), "a", "re: a", "b", "re: b", "c", "re: c")
		})
	}
}

// After a message that failed or was stopped without entries, /undo and /retry do not take the good turn before it: they
// mean the last message. That holds while it is a dead letter.
func TestB75_NotOfTheTurnBefore(t *testing.T) {
	t.Parallel()
	end := func(b *actors.Bench, h *protocol.Claim, status session.Status) {
		_, err := h.Finish(b.Ctx, protocol.End{Status: status, Error: "boom", Release: true})
		expect.OK(b, err)
	}
	for name, last := range map[string]func(*actors.Bench){
		"failed": func(b *actors.Bench) {
			b.Say("bad")
			end(b, b.Start(), session.StatusFailed)
		},
		"stopped": func(b *actors.Bench) {
			b.Say("bad")
			h := b.Start()
			b.Replies("/stop", "Stopping")
			end(b, h, session.StatusStopped)
		},
		"stopped while it waited": func(b *actors.Bench) { // the /stop came too late for "good"
			h := b.Start()
			b.Say("bad")
			b.Replies("/stop", "1 waiting")
			b.Finish(h)
		},
		"its workers died, also at its end": func(b *actors.Bench) {
			b.Say("bad")
			b.Start()
			b.Replies("/stop", "Stopping")
			b.Die()
			b.EndDies()
			b.ClaimNothing("it was stopped")
		},
		"too long": func(b *actors.Bench) {
			b.Enqueue("bad")
			expect.OK(b, b.Redis.HSet(b.Ctx, b.Keys.Task(b.Task("bad")), "msg", strings.Repeat("x", 3<<20)).Err())
			b.ClaimNothing("it is too long")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play := actors.OnceAndTwice
			if name == "too long" { // asynq.Client is not a part that sends twice
				play = func(t *testing.T, story func(*testing.T, *actors.Bench), _ ...actors.Setup) {
					t.Helper()
					story(t, actors.NewBench(t))
				}
			}
			play(t, func(t *testing.T, b *actors.Bench) {
				b.Say("good")
				if name != "stopped while it waited" {
					b.Drain()
				}
				last(b)
				expect.Equal(t, "dead letters", len(b.Dead(actors.Key)), 1)
				was := b.Dump()
				b.Replies("/undo", "/retry runs it again")
				actors.Same(t, "/undo", was, b.Dump())
				if name == "too long" { // it cannot run again
					b.Replies("/retry", "Nothing was changed: invalid message")
					actors.Same(t, "/retry", was, b.Dump())
					expect.OK(t, b.Inspector().DeleteTask(rediskey.Queue(actors.Key), b.Task("bad")))
					b.Replies("/retry", ": good")
					return
				}
				b.Replies("/retry", "Running again: bad")
				expect.Equal(t, "dead letters then", len(b.Dead(actors.Key)), 0)
				b.Drain()
				expect.List(t, "transcript", b.Transcript(b.Info().TranscriptID), "good", "re: good", "bad", "re: bad")
				b.Replies("/undo", ": bad")
			})
		})
	}
}

// An entry that is unreadable to Go, or only to Lua, belongs to the turn before it.
func TestB75_UndoOfAnUnreadableEnd(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.SayAll("a", "b")
	b.Drain()
	sid := b.Info().TranscriptID
	b.Redis.RPush(b.Ctx, b.Keys.Transcript(sid), `{"turn":"x","at":NaN}`, `{"turn":"\ud800"`)
	u, err := b.Client.Session(actors.Key).Undo(b.Ctx)
	expect.OK(t, err)
	expect.Equal(t, "undone", fmt.Sprint(u.Text, " ", u.Entries), "b 4")
	expect.List(t, "transcript", b.Transcript(sid), "a", "re: a")
}

// A call that is repeated after a lost reply has the same result, whatever others have undone
// meanwhile: it removes no other turn.
func TestUndoIsRepeatedBehindAnother(t *testing.T) {
	t.Parallel()
	undo := func(ctx context.Context, c *actors.Client) (session.Undone, error) {
		return c.Session(actors.Key).Undo(ctx)
	}
	retry := func(ctx context.Context, c *actors.Client) (session.Undone, error) {
		return c.Session(actors.Key).Retry(ctx)
	}
	for name, c := range map[string]struct {
		first, other func(context.Context, *actors.Client) (session.Undone, error)
		then         []string
	}{
		"undo, undo":   {undo, undo, []string{"a", "re: a"}},
		"undo, retry":  {undo, retry, []string{"a", "re: a", "b", "re: b"}},
		"retry, undo":  {retry, undo, []string{"a", "re: a", "c", "re: c"}},
		"retry, retry": {retry, retry, []string{"a", "re: a", "b", "re: b", "c", "re: c"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			b.Load("undo")
			for _, text := range []string{"a", "b", "c"} {
				b.Say(text)
				b.Drain()
			}
			faults, other := &redistest.Faults{}, another(b)
			b.Redis.AddHook(faults)
			b.Redis.AddHook(actors.Behind(actors.Script("undo"), sync.OnceFunc(func() {
				u, err := c.other(b.Ctx, other)
				expect.OK(t, err)
				expect.Equal(t, "the other's", u.Text, "b")
			})))
			faults.RunTwice(actors.Script("undo"), 1)
			u, err := c.first(b.Ctx, b.Client)
			expect.OK(t, err)
			expect.Equal(t, "undone", fmt.Sprint(u.Text, " ", u.Entries), "c 2")
			expect.List(t, "transcript", b.Transcript(b.Info().TranscriptID), "a", "re: a")
			b.Drain()
			expect.List(t, "transcript then", b.Transcript(b.Info().TranscriptID), c.then...)
		})
	}
}

// Undo notices a turn that ended since it read the transcript, also if the transcript is no longer
// than before.
func TestUndoNoticesATurnInAFullTranscript(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t, func(c *protocol.Config) { c.TranscriptCap = 4 })
	b.SayAll("a", "b")
	b.Drain()
	b.Redis.AddHook(actors.Before(actors.Script("undo"), sync.OnceFunc(func() { b.Say("c"); b.Drain() })))
	u, err := b.Client.Session(actors.Key).Undo(b.Ctx)
	expect.OK(t, err)
	expect.Equal(t, "undone", u.Text, "c")
	expect.List(t, "transcript", b.Transcript(b.Info().TranscriptID), "b", "re: b")
}

// The last turn is read in pages, as far as it goes.
func TestUndoOfALargeTurn(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t, func(c *protocol.Config) { c.TranscriptCap = 20_000 })
	b.Say("a")
	b.Drain()
	b.Say("b")
	h := b.Start()
	large := strings.Repeat("x", 900<<10)
	end := protocol.End{Status: session.StatusDone, Entries: []session.Entry{{Role: session.RoleUser, Text: "b", Message: "b", Turn: h.Turn().ID}}}
	for range 5 {
		end.Entries = append(end.Entries, session.Entry{Role: session.RoleAssistant, Text: large, Turn: h.Turn().ID})
	}
	_, err := h.Finish(b.Ctx, end)
	expect.OK(t, err)
	u, err := b.Client.Session(actors.Key).Undo(b.Ctx)
	expect.OK(t, err)
	expect.Equal(t, "undone", fmt.Sprint(u.Text, " ", u.Entries), "b 6")
	expect.List(t, "transcript", b.Transcript(b.Info().TranscriptID), "a", "re: a")

	b.Say("c")
	h = b.Start()
	end.Entries = []session.Entry{{Role: session.RoleUser, Text: "c", Message: "c", Turn: h.Turn().ID}}
	for range 10_000 {
		end.Entries = append(end.Entries, session.Entry{Role: session.RoleAssistant, Text: "x", Turn: h.Turn().ID})
	}
	_, err = h.Finish(b.Ctx, end)
	expect.OK(t, err)
	before := b.Dump()
	if _, err = b.Client.Session(actors.Key).Undo(b.Ctx); err == nil || !strings.Contains(err.Error(), "more than 10000 entries") || !errors.Is(err, session.ErrUnchanged) {
		t.Errorf("error: %v", err)
	}
	actors.Same(t, "undo", before, b.Dump())
}

// Undo gives up on a transcript that changes after each look.
func TestUndoOfWhatKeepsChanging(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Load("undo")
	b.Say("a")
	b.Drain()
	looks := 0
	b.Redis.AddHook(actors.Before(actors.Script("undo"), func() {
		looks++
		b.Redis.RPush(b.Ctx, b.Keys.Transcript(b.Info().TranscriptID), "another program's")
	}))
	if _, err := b.Client.Session(actors.Key).Undo(b.Ctx); !errors.Is(err, session.ErrBusy) {
		t.Errorf("error: %v", err)
	}
	expect.Equal(t, "looks", looks, 10)
}

// Two calls mean the same turn: it is removed once, and rerun once if one of them is /retry.
func TestB75_TwoAtOnce(t *testing.T) {
	t.Parallel()
	type command func(context.Context) (session.Undone, error)
	undo := func(c *actors.Client) command { return c.Session(actors.Key).Undo }
	retry := func(c *actors.Client) command { return c.Session(actors.Key).Retry }
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
			sid := b.Info().TranscriptID
			other := another(b)
			b.Redis.AddHook(actors.Before(actors.Script("undo"), sync.OnceFunc(func() {
				u, err := c.first(other)(b.Ctx)
				expect.OK(t, err)
				expect.Equal(t, "the first one's", u.Text, "c")
			})))
			u, err := c.second(b.Client)(b.Ctx)
			expect.OK(t, err)
			expect.Equal(t, "the second one's", u.Text, "c")
			expect.Equal(t, "entries taken out", u.Entries, 2)
			expect.List(t, "transcript", b.Transcript(sid), "a", "re: a", "b", "re: b")
			expect.Equal(t, "runs again", len(b.Drain()), c.again)
			expect.Equal(t, "entries then", len(b.Transcript(sid)), 4+2*c.again)
		})
	}
}

// A turn that ends after /undo has looked is the last turn then.
func TestB75_UndoFindsANewerTurn(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	b.Drain()
	b.Redis.AddHook(actors.Before(actors.Script("undo"), sync.OnceFunc(func() { b.Say("b"); b.Drain() })))
	u, err := b.Client.Session(actors.Key).Undo(b.Ctx)
	expect.OK(t, err)
	expect.Equal(t, "undone", u.Text, "b")
	expect.List(t, "transcript", b.Transcript(b.Info().TranscriptID), "a", "re: a")
}

// Turns with checkpoints, /undo and readers run at once: a reader sees whole turns only, and a
// journal only of the running turn.
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
			_, err := client.Session(actors.Key).Undo(b.Ctx)
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
				if err := actors.Checkpoint(b.Ctx, h, entries); err != nil {
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
	expect.Equal(t, "entries left", len(b.Transcript(b.Info().TranscriptID)), 2*(turns-undone))
}

// wholeTurns reads a session's state at one moment and checks that it is valid.
func wholeTurns(b *actors.Bench) string {
	b.Helper()
	sid := b.Redis.HGet(b.Ctx, b.Keys.Record(), "session_id").Val()
	var lines *redis.StringSliceCmd
	var journal, sentinel *redis.StringCmd
	var run *redis.SliceCmd
	_, _ = b.Redis.TxPipelined(b.Ctx, func(p redis.Pipeliner) error {
		lines = p.LRange(b.Ctx, b.Keys.Transcript(sid), 0, -1)
		journal, sentinel = p.HGet(b.Ctx, b.Keys.Journal(), "fence"), p.Get(b.Ctx, b.Keys.Sentinel())
		run = p.HMGet(b.Ctx, b.Keys.Run(), "fence", "phase", "token")
		return nil
	})
	var turns []string
	for _, l := range lines.Val() {
		turns = append(turns, protocol.DecodeEntry(l).Turn)
	}
	for i, turn := range turns {
		if turn != turns[i^1] || i >= 2 && i%2 == 0 && turn <= turns[i-1] {
			b.Errorf("entries of half a turn: %q", turns)
			break
		}
	}
	if fence := journal.Val(); fence != "" && (sentinel.Val() == "" || run.Val()[0] != fence || run.Val()[2] != sentinel.Val()) {
		b.Errorf("a journal of turn %s beside %v and the sentinel %q", fence, run.Val(), sentinel.Val())
	}
	if slices.Contains(turns, rediskey.IDPrefix(actors.Key)+fmt.Sprint(run.Val()[0])) && sentinel.Val() != "" {
		b.Errorf("the turn that runs has entries already: %q, %v", turns, run.Val())
	}
	return fmt.Sprint(len(turns), " entries, ", run.Val()[1])
}
