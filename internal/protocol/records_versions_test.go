package protocol_test

import (
	"testing"

	"turnstile/internal/chat/receipt"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// An entry, a setting and a mark that another version has written in part, or with unknown words,
// stop no session.
func TestRecordsOfOtherVersions(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	b.Drain()
	expect.OK(t, b.Redis.HSet(b.Ctx, b.Keys.Record(), "queue", `{"mode":"telepathy","colour":"red"}`, "dropped", "not JSON", "new", "1").Err())
	expect.OK(t, b.Redis.HSet(b.Ctx, b.Keys.Resume(), "pending", "1", "colour", "red").Err())
	expect.OK(t, b.Redis.HSet(b.Ctx, b.Keys.Run(), "colour", "red").Err())
	expect.OK(t, b.Redis.Set(b.Ctx, b.Keys.Partial(), `{"v":9,"entries":7}`, 0).Err())
	expect.OK(t, b.Redis.RPush(b.Ctx, b.Keys.Transcript(b.Info().TranscriptID), `{"role":"oracle","colour":"red"}`, "not JSON").Err())
	b.Say("b")
	h := b.Start()
	expect.Equal(t, "resume", h.Turn().Resume, "restart_timeout")
	past, err := h.History(b.Ctx)
	expect.OK(t, err)
	expect.Equal(t, "entries", len(past.Entries), 4)
	expect.Equal(t, "role of one that cannot be read", past.Entries[3].Role, session.RoleSystem)
	expect.Equal(t, "waits", b.Say("c").Status, receipt.Queued)
	expect.Equal(t, "has a next turn", b.Finish(h), true)
	b.Finish(h)
	expect.Equal(t, "status", b.Outcome("c").Status, session.StatusDone)
}

// Settings that no user can have set (of another version, of a broken record) do not stop a
// session.
func TestBrokenSettingsSayNothing(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"x", "[]", `"collect"`, "7", "null", `{"mode":"sometimes"}`} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			b.Say("a")
			b.Start()
			b.Redis.HSet(b.Ctx, b.Keys.Record(), "queue", text)
			expect.Equal(t, "status", b.Say("b").Status, receipt.Queued)
		})
	}
}
