package turnstile_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

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
	b.SayAll("a", "b")
	b.Finish(b.Start())
	b.Redis.AddHook(actors.Before(actors.Script("undo"), sync.OnceFunc(func() { b.Die(); b.Drain() })))
	b.Die()
	u, err := b.Client.Session(actors.Key).Undo(b.Ctx)
	expect.OK(t, err)
	expect.Equal(t, "undone", u.Text, "b")
	expect.List(t, "transcript", b.Transcript(b.Info().TranscriptID), "a", "re: a")
}

// Turns with checkpoints, /undo and readers run at once: a reader sees whole turns only, and a
// partial only of the running turn.
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
		turns = append(turns, protocol.DecodeEntry(l).Turn)
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
