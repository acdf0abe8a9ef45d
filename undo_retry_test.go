package turnstile_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/hibiken/asynq"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/wire"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

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
		sid := b.Info().TranscriptID
		b.Redis.Del(b.Ctx, rediskey.Ready, rediskey.Due)
		b.Replies("/retry", "Running again: b")
		expect.Equal(t, "workers are notified", b.IsIn(rediskey.Ready, actors.Key), true)
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

// The reply of /retry is lost, and a worker has claimed the message before /retry is repeated: it
// was done, not refused.
func TestB75_RetryRunsBeforeItsReply(t *testing.T) {
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

// A turn of several messages is removed as a whole, and rerun as one message.
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
		expect.Equal(b, "entries", len(b.Transcript(h.Turn().TranscriptID)), 6)
	}
	t.Run("undo", func(t *testing.T) {
		t.Parallel()
		actors.OnceAndTwice(t, func(t *testing.T, b *actors.Bench) {
			prepare(b)
			u, err := b.Client.Session(actors.Key).Undo(b.Ctx)
			expect.OK(t, err)
			expect.Equal(t, "undone", u.Text, "b\n\nc\n\nd")
			expect.Equal(t, "entries", u.Entries, 4)
			expect.List(t, "transcript", b.Transcript(b.Info().TranscriptID), "a", "re: a")
		})
	})
	t.Run("retry", func(t *testing.T) {
		t.Parallel()
		actors.OnceAndTwice(t, func(t *testing.T, b *actors.Bench) {
			prepare(b)
			_, err := b.Client.Session(actors.Key).Retry(b.Ctx)
			expect.OK(t, err)
			h := b.Start()
			expect.Equal(t, "messages", len(actors.MessageIDs(h)), 1)
			expect.Equal(t, "text", h.Turn().Message.Text, "b\n\nc\n\nd")
			b.Finish(h)
			expect.List(t, "transcript", b.Transcript(h.Turn().TranscriptID), "a", "re: a", "b\n\nc\n\nd", "re: b\n\nc\n\nd")
		})
	})
	t.Run("retry of too much", func(t *testing.T) {
		t.Parallel()
		b := actors.NewBench(t)
		b.Say("a")
		h := b.Start()
		half := strings.Repeat("x", 1<<20)
		_, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusDone, Entries: []session.Entry{
			{Role: session.RoleUser, Text: half, Turn: h.Turn().ID}, {Role: session.RoleUser, Text: half, Turn: h.Turn().ID},
		}})
		expect.OK(t, err)
		b.Replies("/retry", "Nothing was changed: invalid message")
		expect.Equal(t, "entries", len(b.Transcript(h.Turn().TranscriptID)), 2)
	})
	t.Run("retry of a trimmed turn", func(t *testing.T) {
		t.Parallel()
		b := actors.NewBench(t, func(c *protocol.Config) { c.TranscriptCap = 1 })
		b.Say("a")
		b.Drain()
		b.Replies("/retry", "Nothing was changed: invalid message")
		expect.Equal(t, "entries", len(b.Transcript(b.Info().TranscriptID)), 1)
	})
}

// /retry stores its message as asynq.Client does.
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
		m, err := wire.Decode(task.Payload(), session.Limits{})
		ran <- m.Text
		return err
	})
	expect.Equal(t, "a stock server runs", <-ran, "a")
	expect.Soon(t, "its end", func() bool { return b.Redis.Exists(b.Ctx, b.Keys.Pending(), b.Keys.Active()).Val() == 0 })
	stop()
	b.ClaimNothing("all was run")
}
