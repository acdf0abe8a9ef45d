package protocol_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"turnstile"
	sq "turnstile/internal/protocol"
	"turnstile/internal/rediskey"
	"turnstile/internal/titles"
	"turnstile/pkg/session"
	"turnstile/test/expect"
)

func TestCommandQueue(t *testing.T) {
	t.Parallel()
	onceAndTwice(t, func(t *testing.T, b *bench) {
		b.answers("/queue", "nothing is set here")
		const said = "collect debounce:500ms cap:25 drop:summarize"
		b.answers("/queue collect debounce:0.5s cap:25 drop:summarize", said)
		want := session.QueueSettings{
			Mode: session.ModeCollect, Debounce: session.Millis(500 * time.Millisecond), Cap: 25, Drop: session.DropSummarize,
		}
		expect.Equal(t, "settings", b.info().Settings, want)
		b.answers("/queue", said)
		b.answers("/status", said)
		before := b.dump()
		for text, answer := range map[string]string{
			"/queue sometimes":              `invalid mode "sometimes"`,
			"/queue collect later":          `invalid word "later"`,
			"/queue collect cap:25 drop:it": `invalid drop policy "it"`,
			"/queue reset now":              `invalid mode "reset"`,
			"/queue cap:0 debounce:soon":    `invalid cap "0": write a number from 1 to 10000; invalid debounce "soon"`,
		} {
			b.refuses(text, "Nothing was changed: ")
			b.refuses(text, answer)
		}
		same(t, "a wrong /queue", before, b.dump())
		b.answers("/queue reset", "as the worker is configured")
		expect.Equal(t, "settings", b.info().Settings, session.QueueSettings{})
		b.answers("/queue", "nothing is set here")
	})
}

// Settings that nobody can have said (another version's, a broken record) do not
// stop a session.
func TestBrokenSettingsSayNothing(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"x", "[]", `"collect"`, "7", "null", `{"mode":"sometimes"}`} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.say("a")
			b.start()
			b.rdb.HSet(b.ctx, b.k.Record(), "queue", text)
			expect.Equal(t, "status", b.say("b").Status, turnstile.Queued)
		})
	}
}

func TestCommandSteer(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.refuses("/steer", "Say what to tell the running turn: /steer TEXT.")
	expect.Equal(t, "database", b.dump(), "")
	say := func(text string) turnstile.Receipt {
		t.Helper()
		r, err := b.client.Submit(b.ctx, key, session.Message{ID: "s", Text: text, Mode: session.ModeReject})
		expect.OK(t, err)
		return r
	}
	expect.Equal(t, "with nothing to steer it is a message", say("/steer  to the left ").Status, turnstile.Accepted)
	h := b.start()
	expect.Equal(t, "text", h.Turn().Message.Text, "to the left")
	b.finish(h)
	b.say("a")
	h = b.start()
	r, err := b.client.Submit(b.ctx, key, session.Message{ID: "s2", Text: "/steer to the left"})
	expect.OK(t, err)
	expect.Equal(t, "status", r.Status, turnstile.Queued)
	taken, err := h.Steer(b.ctx)
	expect.OK(t, err)
	expect.Equal(t, "taken", taken[0].Message.Text, "to the left")
}

func TestCommandEscape(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.say("a")
	h := b.start()
	for text, want := range map[string]string{
		"//stop": "/stop", "///stop": "//stop", "/compact": "/compact", "/ stop": "/ stop", "/Weather": "/Weather", "/new\nline": "/new\nline", "say /stop": "say /stop",
	} {
		r, err := b.client.Submit(b.ctx, key, session.Message{Text: text})
		expect.OK(t, err)
		expect.Equal(t, "status of "+text, r.Status, turnstile.Queued)
		b.finish(h)
		expect.Equal(t, "text of "+text, h.Turn().Message.Text, want)
	}
	b.refuses("/help now", "To send it as a message, write //help")
	if _, err := b.client.Submit(b.ctx, key, session.Message{Text: "/new"}, turnstile.Delay(time.Hour)); err == nil {
		t.Error("a delayed command has no error")
	}
}

func TestCommandTitle(t *testing.T) {
	t.Parallel()
	onceAndTwice(t, func(t *testing.T, b *bench) {
		b.answers("/title", "no title")
		long := strings.Repeat("ä", titles.Max)
		b.answers("/title "+long, long)
		expect.Equal(t, "title", b.info().Title+" "+b.info().TitleBy, long+" user")
		before := b.dump()
		b.refuses("/title "+long+"x", "Nothing was changed: invalid title: it has 201 characters")
		same(t, "a title that is too long", before, b.dump())
		b.answers("/title  The  build ", "The  build")
		expect.Equal(t, "/title", b.command("/title"), "The  build")
		b.answers("/status", "Title: The  build")
	})
}

// B71: what an agent proposes never overwrites what a user said, whoever comes
// first, and never lands on another transcript.
func TestB71_TitleOfTheUserStays(t *testing.T) {
	t.Parallel()
	onceAndTwice(t, func(t *testing.T, b *bench) {
		b.say("a")
		h := b.start()
		expect.OK(t, h.Title(b.ctx, "its"))
		expect.Equal(t, "title", b.info().Title+" "+b.info().TitleBy, "its agent")
		expect.OK(t, h.Title(b.ctx, "its second"))
		b.answers("/title mine", "mine")
		expect.OK(t, h.Title(b.ctx, "its third"))
		expect.Equal(t, "title", b.info().Title+" "+b.info().TitleBy, "mine user")
		b.answers("/new", "The running turn ends in the old one")
		expect.Equal(t, "title after /new", b.info().Title, "")
		expect.OK(t, h.Title(b.ctx, "of the old conversation"))
		expect.Equal(t, "title after /new", b.info().Title, "")
		b.say("b")
		b.finish(h)
		expect.OK(t, h.Title(b.ctx, "of the new one"))
		expect.Equal(t, "title", b.info().Title, "of the new one")
		b.die()
		expect.OK(t, h.Title(b.ctx, "a lost owner's"))
		expect.Equal(t, "title", b.info().Title, "of the new one")
	})
}

func TestB71_TitleRace(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.say("a")
	h := b.start()
	for i := range 40 {
		expect.OK(t, b.client.SetTitle(b.ctx, key, ""))
		mine := fmt.Sprint("mine ", i)
		var both sync.WaitGroup
		both.Go(func() {
			for range 3 {
				if err := h.Title(b.ctx, "its"); err != nil {
					t.Error(err)
				}
			}
		})
		both.Go(func() {
			if err := b.client.SetTitle(b.ctx, key, mine); err != nil {
				t.Error(err)
			}
		})
		both.Wait()
		if s := b.info(); s.Title != mine || s.TitleBy != "user" {
			t.Fatalf("the title is %q, by %s", s.Title, s.TitleBy)
		}
	}
}

// /new in mid-turn: the turn ends in the old transcript, and those that wait begin
// the new one, whatever ends the turn.
func TestCommandNewInMidTurn(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(b *bench, h *sq.Claim) *sq.Claim{
		"/new":   func(b *bench, h *sq.Claim) *sq.Claim { b.finish(h); return h },
		"/reset": func(b *bench, h *sq.Claim) *sq.Claim { b.finish(h); return h },
		"/new and a release": func(b *bench, h *sq.Claim) *sq.Claim {
			end := b.done(h)
			end.Release = true
			_, err := h.Finish(b.ctx, end)
			expect.OK(b, err)
			return b.start()
		},
	} {
		t.Run(strings.ReplaceAll(name, "/", ""), func(t *testing.T) {
			t.Parallel()
			onceAndTwice(t, func(t *testing.T, b *bench) {
				b.say("a")
				h := b.start()
				old := h.Turn().SessionID
				b.say("b")
				b.collected("c", "d")
				b.say("s", session.ModeSteer)
				_, err := h.Steer(b.ctx)
				expect.OK(t, err)
				command, _, _ := strings.Cut(name, " ")
				b.answers(command, "The running turn ends in the old one")
				fresh := b.info().SessionID
				expect.Equal(t, "session id changed", fresh != old, true)
				h = end(b, h)
				expect.Equal(t, "session id of what waited", h.Turn().SessionID, fresh)
				expect.Equal(t, "entries", h.Turn().Entries, 0)
				b.finish(h)
				expect.List(t, "the turn", group(h), "c", "d")
				b.finish(h)
				expect.List(t, "the old transcript", b.transcript(old), "a", "re: a")
				expect.List(t, "the new transcript", b.transcript(fresh), "b", "re: b", "c", "d", "re: c")
				expect.Equal(t, "the steered one's", b.outcome("s").SessionID, old)
				b.answers(command, "The next message begins a new conversation.")
			})
		})
	}
}

func TestCommandHistory(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.answers("/history", "no entry yet")
	b.say("a")
	h := b.start()
	tool := func(use session.ToolUse) session.Entry {
		return session.Entry{Role: session.RoleTool, Tool: &use, Turn: h.Turn().ID}
	}
	_, err := h.Finish(b.ctx, sq.End{Status: session.StatusDone, Entries: []session.Entry{
		{Role: session.RoleUser, Text: "a", Turn: h.Turn().ID},
		tool(session.ToolUse{Name: "look", Output: json.RawMessage(`1`)}),
		tool(session.ToolUse{Name: "find", Error: "none"}),
		tool(session.ToolUse{Name: "wait"}),
		{Role: session.RoleAssistant, Text: strings.Repeat("ä", 1500), Turn: h.Turn().ID, Interrupted: true},
	}})
	expect.OK(t, err)
	b.rdb.RPush(b.ctx, b.k.Transcript(b.info().SessionID), "not JSON")
	lines := strings.Split(b.command("/history"), "\n")
	expect.List(t, "the beginning", lines[:4], "user: a", "tool: look", "tool: find failed: none", "tool: wait, interrupted")
	expect.Equal(t, "a long text", lines[4], "assistant: "+strings.Repeat("ä", 1000)+" [...] [interrupted]")
	if !strings.HasPrefix(lines[5], "system: [an entry of 8 bytes that cannot be read:") {
		t.Errorf("an entry that cannot be read is shown as %q", lines[5])
	}
	expect.Equal(t, "the last two", len(strings.Split(b.command("/history 2"), "\n")), 2)
	for _, bad := range []string{"0", "-1", "1001", "all", "2 3"} {
		b.refuses("/history "+bad, "Write how many entries, from 1 to 1000")
	}
	b.answers("/new", "new conversation")
	b.answers("/history", "no entry yet")
}

// /resume: what a stop or a failure has put aside, oldest first, and nothing else.
func TestCommandResume(t *testing.T) {
	t.Parallel()
	onceAndTwice(t, func(t *testing.T, b *bench) {
		b.answers("/resume", "nothing to rerun")
		b.sayAll("failed", "expired", "rolled-back", "operators", "running", "x", "dropped", "first", "second")
		h := b.start()
		end := func(e sq.End) {
			t.Helper()
			_, err := h.Finish(b.ctx, e)
			expect.OK(t, err)
		}
		end(sq.End{Status: session.StatusFailed, Error: "no"})
		end(sq.End{Status: session.StatusExpired, Error: "too old"})
		end(sq.End{Status: session.StatusInterrupted, Rollback: true, Error: "rolled back"})
		expect.OK(t, h.Requeue(b.ctx, "drain"))
		operator := asynq.NewInspectorFromRedisClient(b.bare())
		expect.OK(t, operator.ArchiveTask(rediskey.Queue(key), b.task("operators")))
		h = b.start()
		expect.Equal(t, "the turn", h.Turn().Message.ID, "running")
		expect.OK(t, operator.DeleteTask(rediskey.Queue(key), b.task("x")))
		b.c = newWorker(t, b.rdb, "small", func(c *sq.Config) { c.Line.Cap, c.Line.Drop = 2, session.DropOld })
		expect.OK(t, b.client.Configure(b.ctx, key, session.QueueSettings{Cap: 3, Drop: session.DropOld}))
		b.say("third")
		expect.Equal(t, "dropped", b.outcome("dropped").Status, session.StatusDropped)
		expect.OK(t, h.Requeue(b.ctx, "drain"))
		_, err := b.client.Stop(b.ctx, key)
		expect.OK(t, err)
		b.say("new")
		b.rdb.Del(b.ctx, rediskey.Ready)
		b.answers("/resume", "Rerunning 5 messages.")
		expect.Equal(t, "the workers are told", b.isIn(rediskey.Ready, key), true)
		expect.List(t, "runs", b.drain(), "new", "failed", "running", "first", "second", "third")
		for id, want := range map[string]session.Status{
			"failed": session.StatusDone, "third": session.StatusDone, "expired": session.StatusExpired,
			"rolled-back": session.StatusInterrupted, "dropped": session.StatusDropped, "operators": session.StatusFailed,
		} {
			expect.Equal(t, "end of "+id, b.outcome(id).Status, want)
		}
		b.answers("/resume", "nothing to rerun")
	})
}

// B72, B73, B74: a cancelled turn leaves at one moment; whoever reads sees all of
// it or nothing, and the transcript of before.
func TestB72_B73_B74_CancelIsAtomic(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.say("before")
	b.drain()
	sid := b.info().SessionID
	for i := range 30 {
		id := fmt.Sprint("m", i)
		_, err := b.client.Submit(b.ctx, key, session.Message{ID: id, Text: "x", Attachments: []session.Attachment{{Name: "f", URL: "u"}}})
		expect.OK(t, err)
		h := b.start()
		expect.OK(t, h.Checkpoint(b.ctx, []session.Entry{{Role: session.RoleUser, Text: "x", Turn: h.Turn().ID}}))
		_, err = b.client.Stop(b.ctx, key)
		expect.OK(t, err)
		over := make(chan struct{})
		var reader sync.WaitGroup
		seen := map[string]int{}
		reader.Go(func() {
			for last := false; ; {
				seen[b.wholeOrGone(id)]++
				if last {
					return
				}
				select {
				case <-over:
					last = true
				default:
				}
			}
		})
		_, err = h.Finish(b.ctx, sq.End{Status: session.StatusStopped, Error: "stopped by user"})
		expect.OK(t, err)
		close(over)
		reader.Wait()
		if seen["gone"] == 0 || len(seen) > 2 {
			t.Errorf("states seen: %v", seen)
		}
		s := b.info()
		expect.Equal(t, "after cancel", s.Phase+s.Turn+s.Worker+strings.Join(s.Messages, " "), "idle")
		expect.Equal(t, "start time", s.StartedAt.IsZero(), true)
		expect.Equal(t, "the message", b.outcome(id).Status, session.StatusStopped)
		expect.List(t, "transcript", b.transcript(sid), "before", "re: before")
	}
	b.say("after")
	expect.List(t, "runs", b.drain(), "after")
}

// wholeOrGone reads a session at one moment: the turn of a message is there with
// all that belongs to it, or with nothing.
func (b *bench) wholeOrGone(id string) string {
	b.Helper()
	s, err := b.client.Session(b.ctx, key)
	expect.OK(b, err)
	if (s.Turn == "") != (len(s.Messages) == 0) || (s.Turn == "") != s.StartedAt.IsZero() || (s.Turn == "") != (s.Phase == session.PhaseIdle) {
		b.Errorf("half a turn: %+v", s)
	}
	var parts []int64
	var state *redis.StringCmd
	cmds, err := b.rdb.TxPipelined(b.ctx, func(p redis.Pipeliner) error {
		p.Exists(b.ctx, b.k.Sentinel())
		p.Exists(b.ctx, b.k.Active())
		p.Exists(b.ctx, b.k.Partial())
		p.Exists(b.ctx, b.k.Lease())
		state = p.HGet(b.ctx, b.k.Task(b.task(id)), "state")
		return nil
	})
	expect.OK(b, err)
	sum := int64(0)
	for _, cmd := range cmds {
		if n, ok := cmd.(*redis.IntCmd); ok {
			parts = append(parts, n.Val())
			sum += n.Val()
		}
	}
	switch {
	case sum == 4 && state.Val() == "active":
		return "whole"
	case sum == 0 && state.Val() == "archived":
		return "gone"
	}
	return fmt.Sprint("half: ", parts, state.Val())
}
