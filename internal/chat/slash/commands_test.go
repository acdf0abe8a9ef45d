package slash_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"turnstile"
	"turnstile/internal/chat/receipt"
	"turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/resume"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

func TestCommandQueue(t *testing.T) {
	t.Parallel()
	actors.OnceAndTwice(t, func(t *testing.T, b *actors.Bench) {
		b.Replies("/queue", "nothing is set here")
		const said = "collect debounce:500ms cap:25 drop:summarize"
		b.Replies("/queue collect debounce:0.5s cap:25 drop:summarize", said)
		want := session.QueueSettings{
			Mode: session.ModeCollect, Debounce: session.Millis(500 * time.Millisecond), Cap: 25, Drop: session.DropSummarize,
		}
		expect.Equal(t, "settings", b.Info().Queue, want)
		b.Replies("/queue", said)
		b.Replies("/status", said)
		before := b.Dump()
		for text, answer := range map[string]string{
			"/queue sometimes":              `invalid mode "sometimes"`,
			"/queue collect later":          `invalid word "later"`,
			"/queue collect cap:25 drop:it": `invalid drop policy "it"`,
			"/queue reset now":              `invalid mode "reset"`,
			"/queue cap:0 debounce:soon":    `invalid cap "0": write a number from 1 to 10000; invalid debounce "soon"`,
		} {
			refuses(b, text, "Nothing was changed: ")
			refuses(b, text, answer)
		}
		actors.Same(t, "a wrong /queue", before, b.Dump())
		b.Replies("/queue reset", "as the worker is configured")
		expect.Equal(t, "settings", b.Info().Queue, session.QueueSettings{})
		b.Replies("/queue", "nothing is set here")
	})
}

func TestCommandSteer(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	refuses(b, "/steer", "Write what to hand to the running turn: /steer TEXT.")
	_, err := b.Chat().Command(b.Ctx, "/steer left")
	if !errors.Is(err, session.ErrInvalid) || !strings.Contains(err.Error(), "/steer TEXT is a message") {
		t.Errorf("a message as a command: %v", err)
	}
	expect.Equal(t, "database", b.Dump(), "")
	say := func(text string) receipt.Receipt {
		t.Helper()
		r, err := receipt.Input(b.Ctx, b.Client.Session(actors.Key), turnstile.Message{ID: "s", Text: text, Mode: session.ModeReject})
		expect.OK(t, err)
		return r
	}
	expect.Equal(t, "with nothing to steer it is a message", say("/steer  to the left ").Status, receipt.Accepted)
	h := b.Start()
	expect.Equal(t, "text", h.Turn().Message.Text, "to the left")
	b.Finish(h)
	b.Say("a")
	h = b.Start()
	r, err := receipt.Input(b.Ctx, b.Client.Session(actors.Key), turnstile.Message{ID: "s2", Text: "/steer to the left"})
	expect.OK(t, err)
	expect.Equal(t, "status", r.Status, receipt.Queued)
	taken, err := h.Steer(b.Ctx)
	expect.OK(t, err)
	expect.Equal(t, "taken", taken[0].Message.Text, "to the left")
}

func TestCommandEscape(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	h := b.Start()
	for text, want := range map[string]string{
		"//stop": "/stop", "///stop": "//stop", "/compact": "/compact", "/ stop": "/ stop", "/Weather": "/Weather", "/new\nline": "/new\nline", "say /stop": "say /stop",
	} {
		r, err := receipt.Input(b.Ctx, b.Client.Session(actors.Key), turnstile.Message{Text: text})
		expect.OK(t, err)
		expect.Equal(t, "status of "+text, r.Status, receipt.Queued)
		b.Finish(h)
		expect.Equal(t, "text of "+text, h.Turn().Message.Text, want)
	}
	refuses(b, "/help now", "To send it as a message, write //help")
	if _, err := receipt.Input(b.Ctx, b.Client.Session(actors.Key), turnstile.Message{Text: "/new", Delay: time.Hour}); err == nil {
		t.Error("a delayed command has no error")
	}
}

func TestCommandTitle(t *testing.T) {
	t.Parallel()
	actors.OnceAndTwice(t, func(t *testing.T, b *actors.Bench) {
		b.Replies("/title", "no title")
		long := strings.Repeat("ä", protocol.MaxTitle)
		b.Replies("/title "+long, long)
		expect.Equal(t, "title", b.Info().Title+" "+b.Info().TitleBy, long+" user")
		before := b.Dump()
		refuses(b, "/title "+long+"x", "Nothing was changed: invalid title: it has 201 characters")
		actors.Same(t, "a title that is too long", before, b.Dump())
		b.Replies("/title  The  build ", "The  build")
		expect.Equal(t, "/title", b.Command("/title"), "The  build")
		b.Replies("/status", "Title: The  build")
	})
}

// /agent begins a new conversation with another agent, and says which one the session has.
func TestCommandAgent(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Replies("/agent", "has no agent yet")
	refuses(b, "/agent no name", `Nothing was changed: invalid agent "no name"`)
	b.Say("a")
	b.Drain()
	b.Replies("/agent", "agent is default")
	b.Replies("/agent default", "agent is default already")
	before := b.Info().TranscriptID
	b.Replies("/agent coder", "The next message begins a new conversation with coder.")
	expect.Equal(t, "agent", b.Info().Agent, "coder")
	expect.Equal(t, "another transcript", b.Info().TranscriptID != before, true)
	b.Replies("/status", "Agent: coder")
	b.Say("b")
	expect.OK(t, b.Redis.HSet(b.Ctx, b.Keys.Record(), "needs", fmt.Sprint("coder ", b.RedisTime().UnixMilli())).Err())
	expect.OK(t, b.Redis.Set(b.Ctx, rediskey.Timer("due"), 1, 0).Err()) // a worker lives
	b.Replies("/status", "No running worker runs the agent coder for this session")
}

// /status says that a session is paused, whether a turn runs or not.
func TestStatusOfAPausedSession(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	const paused = "An operator has paused the session: no further turn begins until it is unpaused."
	b.Say("a")
	h := b.Start()
	expect.OK(t, b.Redis.Set(b.Ctx, b.Keys.Paused(), 1, 0).Err())
	b.Replies("/status", paused)
	b.Replies("/status", ", 0 waiting.")
	b.Finish(h)
	b.Say("b")
	b.Replies("/status", "Nothing runs, 1 waiting.\n"+paused)
	expect.OK(t, b.Redis.Del(b.Ctx, b.Keys.Paused()).Err())
	if got := b.Command("/status"); strings.Contains(got, "paused") {
		t.Errorf("/status has the reply %q", got)
	}
}

// The mark of an interrupted turn is for the turn that resumes it, also while that runs.
func TestStatusOfAResumedTurn(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	h := b.Start()
	for b.Redis.Time(b.Ctx).Val().UnixMilli() <= b.Info().StartedAt.UnixMilli() { // times are stored in ms
		runtime.Gosched()
	}
	_, err := resume.Mark(b.Ctx, b.Redis, actors.Key, resume.ReasonShutdown)
	expect.OK(t, err)
	b.Replies("/status", "Its last turn was interrupted; the next one gets a note.")
	expect.OK(t, h.Park(b.Ctx, protocol.Parking{Interrupted: resume.ReasonShutdown}))
	b.Replies("/status", "Its last turn was interrupted; the next one gets a note.")
	b.Start()
	b.Replies("/status", "The turn resumes one that was interrupted.")
}

// /status says when a turn whose attempt failed tries again.
func TestStatusOfAParkedRetry(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.SayAll("a", "b")
	expect.OK(t, b.Start().Park(b.Ctx, protocol.Parking{Failed: errors.New("no"), Wait: 90 * time.Minute}))
	b.Replies("/status", "The turn tries again in 1h")
	b.Replies("/status", ", 1 waiting.")
}

func TestCommandHistory(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Replies("/history", "no entry yet")
	b.Say("a")
	h := b.Start()
	tool := func(use session.ToolUse) session.Entry {
		return session.Entry{Role: session.RoleTool, Tool: &use, Turn: h.Turn().ID}
	}
	_, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusDone, Entries: []session.Entry{
		{Role: session.RoleUser, Text: "a", Turn: h.Turn().ID},
		tool(session.ToolUse{Name: "look", Output: json.RawMessage(`1`)}),
		tool(session.ToolUse{Name: "find", Error: "none"}),
		tool(session.ToolUse{Name: "wait"}),
		{Role: session.RoleAssistant, Text: strings.Repeat("ä", 1500), Turn: h.Turn().ID, Interrupted: true},
	}})
	expect.OK(t, err)
	b.Redis.RPush(b.Ctx, b.Keys.Transcript(b.Info().TranscriptID), "not JSON")
	lines := strings.Split(b.Command("/history"), "\n")
	expect.List(t, "the beginning", lines[:4], "user: a", "tool: look", "tool: find failed: none", "tool: wait, interrupted")
	expect.Equal(t, "a long text", lines[4], "assistant: "+strings.Repeat("ä", 1000)+" [...] [interrupted]")
	if !strings.HasPrefix(lines[5], "system: [an entry of 8 bytes that cannot be read:") {
		t.Errorf("an entry that cannot be read is shown as %q", lines[5])
	}
	expect.Equal(t, "the last two", len(strings.Split(b.Command("/history 2"), "\n")), 2)
	for _, bad := range []string{"0", "-1", "1001", "all", "2 3"} {
		refuses(b, "/history "+bad, "Write how many entries, from 1 to 1000")
	}
	b.Replies("/new", "new conversation")
	b.Replies("/history", "no entry yet")
}

// /resume reruns stopped and failed messages, the oldest first, and nothing else.
func TestCommandResume(t *testing.T) {
	t.Parallel()
	actors.OnceAndTwice(t, func(t *testing.T, b *actors.Bench) {
		b.Replies("/resume", "nothing to rerun")
		b.SayAll("failed", "expired", "rolled-back", "operators", "running", "x", "dropped", "first", "second")
		operator := asynq.NewInspectorFromRedisClient(b.BareRedis())
		expect.OK(t, operator.ArchiveTask(rediskey.Queue(actors.Key), b.Task("operators")))
		h := b.Start()
		end := func(e protocol.End) {
			t.Helper()
			_, err := h.Finish(b.Ctx, e)
			expect.OK(t, err)
		}
		end(protocol.End{Status: session.StatusFailed, Error: "no"})
		end(protocol.End{Status: session.StatusExpired, Error: "too old"})
		end(protocol.End{Status: session.StatusInterrupted, Rollback: true, Error: "rolled back"})
		expect.Equal(t, "the turn", h.Turn().Message.ID, "running")
		expect.OK(t, operator.DeleteTask(rediskey.Queue(actors.Key), b.Task("x")))
		b.Worker = actors.NewWorker(t, b.Redis, "small", func(c *protocol.Config) { c.Line.Cap, c.Line.Drop = 2, session.DropOld })
		expect.OK(t, b.Client.Session(actors.Key).SetQueue(b.Ctx, session.QueueSettings{Cap: 3, Drop: session.DropOld}))
		b.Say("third")
		expect.Equal(t, "dropped", b.Outcome("dropped").Status, session.StatusDropped)
		expect.OK(t, h.Park(b.Ctx, protocol.Parking{Interrupted: "drain"}))
		_, err := b.Client.Session(actors.Key).Stop(b.Ctx)
		expect.OK(t, err)
		b.ClaimNothing("its turn was stopped")
		b.Say("new")
		b.Redis.Del(b.Ctx, rediskey.Ready)
		b.Replies("/resume", "Rerunning 5 messages.")
		expect.Equal(t, "workers are notified", b.IsIn(rediskey.Ready, actors.Key), true)
		expect.List(t, "runs", b.Drain(), "new", "failed", "running", "first", "second", "third")
		for id, want := range map[string]session.Status{
			"failed": session.StatusDone, "third": session.StatusDone, "expired": session.StatusExpired,
			"rolled-back": session.StatusInterrupted, "dropped": session.StatusDropped, "operators": session.StatusFailed,
		} {
			expect.Equal(t, "end of "+id, b.Outcome(id).Status, want)
		}
		b.Replies("/resume", "nothing to rerun")
	})
}

// refuses checks the reply to a command with wrong arguments.
func refuses(b *actors.Bench, text, want string) {
	b.Helper()
	if got := b.Receipt(text, true).Reply; !strings.Contains(got, want) {
		b.Errorf("%s has the reply %q, want something with %q", text, got, want)
	}
}
