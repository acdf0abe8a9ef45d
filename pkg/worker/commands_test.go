package worker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/internal/chat/receipt"
	"turnstile/internal/protocol"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/test/expect"
)

// command sends a slash command, and checks that the reply contains a text.
func (r *rig) command(text, want string) {
	r.Helper()
	told := r.say("", text)
	expect.Equal(r, "status of "+text, told.Status, receipt.Answered)
	if !strings.Contains(told.Reply, want) {
		r.Errorf("%s returned %q, want something with %q", text, told.Reply, want)
	}
}

// Two worker processes with agents that propose titles all the time, and a user.
func TestB71_TitleRace(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.process("one", job{})
	r.process("two", job{})
	const sessions, turns = 4, 12
	var all sync.WaitGroup
	for s := range sessions {
		key := fmt.Sprint(r.key, s)
		all.Go(func() {
			for i := range turns {
				text := fmt.Sprintf("title=its_%d tool=x:2ms title=its_%d tool=y:2ms x", i, i)
				if _, err := receipt.Input(r.ctx, r.client.Session(key), turnstile.Message{ID: fmt.Sprint("m", i), Text: text}); err != nil {
					t.Error(err)
				}
			}
		})
		all.Go(func() {
			for i := range 2 * turns {
				mine := fmt.Sprint("mine ", i)
				if err := r.client.Session(key).SetTitle(r.ctx, mine); err != nil {
					t.Error(err)
				}
				if got, err := r.client.Session(key).Info(r.ctx); err != nil || got.Title != mine || got.TitleBy != "user" {
					t.Errorf("the title is %q by %q, %v", got.Title, got.TitleBy, err)
				}
			}
		})
	}
	all.Wait()
	proposed := 0
	for s := range sessions {
		key := fmt.Sprint(r.key, s)
		for i := range turns {
			expect.Equal(t, "end", r.outcomeIn(key, fmt.Sprint("m", i)).Status, session.StatusDone)
		}
		for _, e := range r.events(key) {
			if e.Type == session.EventTitle {
				proposed++
			}
		}
		got, err := r.client.Session(key).Info(r.ctx)
		expect.OK(t, err)
		expect.Equal(t, "title", got.Title, fmt.Sprint("mine ", 2*turns-1))
	}
	expect.Equal(t, "titles proposed", proposed, 2*sessions*turns)
}

// The session has the agent's title until the user sets another.
func TestB71_TitleOfTheAgent(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newStage()
	r.worker(s)
	title := func(text string) agent.Event { return agent.Event{Type: session.EventTitle, Text: text} }
	r.say("m1", "hello")
	a := s.next(t, "m1")
	a.Emit(title(" The\nbuild "))
	a.reply("ok")
	r.ends("m1", session.StatusDone)
	shown := slices.DeleteFunc(r.events(r.key), func(e session.Event) bool { return e.Type != "title" })
	if len(shown) != 1 || shown[0].Text != "The build" {
		t.Errorf("the events of titles are %+v", shown)
	}
	expect.Equal(t, "title", r.info().Title+" by "+r.info().TitleBy, "The build by agent")
	r.say("m2", "hello")
	a = s.next(t, "m2")
	r.command("/title Mine", "Mine")
	a.Emit(title("Its own"))
	a.reply("ok")
	r.ends("m2", session.StatusDone)
	expect.Equal(t, "title", r.info().Title+" by "+r.info().TitleBy, "Mine by user")
}

// Turns in two worker processes, checkpoints, /undo, /retry and readers at once: a transcript has
// only whole turns, and nothing is removed during a turn.
func TestB75_B76_UndoRace(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	j := job{Checkpoint: time.Millisecond}
	r.process("one", j)
	r.process("two", j)
	const turns = 25
	ctx, over := context.WithCancel(r.ctx)
	var others sync.WaitGroup
	count, states := map[string]int{}, 0
	others.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			name, command := "undo", r.client.Session(r.key).Undo
			if n%3 == 0 {
				name, command = "retry", r.client.Session(r.key).Retry
			}
			_, err := command(r.ctx)
			switch {
			case err == nil:
				count[name]++
			case errors.Is(err, session.ErrBusy):
				count["refused"]++
			case !errors.Is(err, session.ErrNoTurn):
				t.Errorf("%s: %v", name, err)
			}
		}
	})
	others.Go(func() {
		for ctx.Err() == nil {
			r.wholeTurns()
			states++
		}
	})
	for i := range turns {
		id := fmt.Sprint("m", i)
		r.say(id, "tool=look:3ms stream=2 tick=3ms hello")
		r.ends(id, session.StatusDone)
	}
	over()
	others.Wait()
	t.Logf("%v, %d states seen", count, states)
	expect.Soon(t, "the session to be free", func() bool { i := r.info(); return i.Phase == "idle" && i.Waiting == 0 && r.token() == "" })
	r.wholeTurns()
	r.alternates(r.key)
	if count["undo"] == 0 || count["retry"] == 0 {
		t.Errorf("nothing was raced: %v", count)
	}
	expect.Equal(t, "turns left", len(r.transcript(r.key))/3, turns-count["undo"])
	expect.Equal(t, "turns", len(r.starts(r.key)), turns+count["retry"])
}

// wholeTurns reads the transcript and the running turn at one moment, and checks them.
func (r *rig) wholeTurns() {
	r.Helper()
	sid := r.rdb.HGet(r.ctx, r.k.Record(), "session_id").Val()
	var lines *redis.StringSliceCmd
	var journal, sentinel *redis.StringCmd
	var run *redis.SliceCmd
	_, _ = r.rdb.TxPipelined(r.ctx, func(p redis.Pipeliner) error { // an error only means that there is no turn
		lines = p.LRange(r.ctx, r.k.Transcript(sid), 0, -1)
		journal, sentinel = p.HGet(r.ctx, r.k.Journal(), "fence"), p.Get(r.ctx, r.k.Sentinel())
		run = p.HMGet(r.ctx, r.k.Run(), "fence", "phase")
		return nil
	})
	var turns, roles []string
	for _, l := range lines.Val() {
		e := protocol.DecodeEntry(l)
		turns, roles = append(turns, e.Turn), append(roles, string(e.Role))
	}
	for i := 0; i < len(turns); i += 3 {
		n := min(i+3, len(turns))
		whole := slices.Equal(roles[i:n], []string{"user", "tool", "assistant"}) && turns[i] == turns[i+1] && turns[i] == turns[i+2]
		if !whole || i > 0 && turns[i] <= turns[i-1] {
			r.Errorf("not whole turns: %q %q", turns, roles)
			return
		}
	}
	if journal.Val() != "" && (sentinel.Val() == "" || journal.Val() != run.Val()[0]) {
		r.Errorf("a journal that is not the running turn's: %s, %v", journal.Val(), run.Val())
	}
}

// A turn that was interrupted and resumed in another process is one turn to /undo.
func TestB75_UndoOfAnInterruptedTurn(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	one := r.process("one", job{TTL: expect.Lease(3 * time.Second), Checkpoint: time.Millisecond})
	r.say("m0", "before")
	r.ends("m0", session.StatusDone)
	r.say("m1", "linger")
	expect.Soon(t, "a checkpoint", func() bool { return r.rdb.Exists(r.ctx, r.k.Journal()).Val() == 1 })
	one.kill()
	r.command("/history", "echo: before")
	r.process("two", heir)
	r.ends("m1", session.StatusDone)
	expect.List(t, "transcript", r.transcript(r.key), "user before", "assistant echo: before",
		"user linger", "tool look (interrupted)", "assistant echo: linger")
	expect.Soon(t, "the session to be free", func() bool { return r.token() == "" })
	r.command("/undo", "(3 entries)")
	expect.List(t, "transcript", r.transcript(r.key), "user before", "assistant echo: before")
}

// /undo and /retry are refused during a turn. After it, any worker runs the message again.
func TestB75_RetryRunsAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newStage()
	r.worker(s)
	r.worker(s)
	r.say("m1", "hello")
	a := s.next(t, "m1")
	r.command("/undo", "A turn is running")
	r.command("/retry", "A turn is running")
	a.reply("poor")
	r.ends("m1", session.StatusDone)
	expect.Soon(t, "the session to be free", func() bool { return r.token() == "" })
	r.command("/retry", "Running again: hello")
	b := expect.Received(t, "the second run", s.acts)
	expect.Equal(t, "text", b.Messages[0].Text, "hello")
	expect.Equal(t, "history", len(b.History), 0)
	expect.Equal(t, "its id is new", b.Messages[0].ID != "m1", true)
	b.reply("good")
	r.ends(b.Messages[0].ID, session.StatusDone)
	expect.List(t, "transcript", r.transcript(r.key), "user hello", "assistant good")
}
