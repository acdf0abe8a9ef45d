package turnstile_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"turnstile"
	"turnstile/internal/chat/receipt"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// Another message with a remembered ID is refused and not stored, whether the first waits, runs,
// ended or was deleted (B82).
func TestB82_AnIDIsOneMessage(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	submit := func(m turnstile.Message, o ...actors.Option) string {
		t.Helper()
		m.ID = "a"
		r, err := receipt.Input(b.Ctx, b.Client.Session(actors.Key), actors.With(m, o...))
		expect.OK(t, err)
		switch r.Reason {
		case "conflict":
			expect.Equal(t, "is a conflict", errors.Is(r.Err, session.ErrConflict), true)
		case "expired":
			expect.Equal(t, "has expired", errors.Is(r.Err, session.ErrExpired), true)
		}
		return strings.TrimSpace(string(r.Status) + " " + r.Reason + string(r.State))
	}
	others := func(when string) {
		t.Helper()
		before := database(b)
		expect.Equal(t, when+", another text", submit(turnstile.Message{Text: "b"}), "refused conflict")
		expect.Equal(t, when+", another mode", submit(turnstile.Message{Text: "a", Mode: session.ModeSteer}), "refused conflict")
		expect.Equal(t, when+", other metadata", submit(turnstile.Message{Text: "a", Meta: map[string]string{"sender": "eve"}}), "refused conflict")
		expect.Equal(t, when+", delayed", submit(turnstile.Message{Text: "b"}, actors.Delay(time.Hour)), "refused conflict")
		actors.Same(t, "refused, "+when, before, database(b))
	}
	expect.Equal(t, "first", submit(turnstile.Message{Text: "a"}), "accepted")
	others("it waits")
	expect.Equal(t, "again", submit(turnstile.Message{Text: "a"}), "duplicate pending")
	h := b.Start()
	others("it runs")
	b.Finish(h)
	others("it has ended")
	expect.Equal(t, "again", submit(turnstile.Message{Text: "a"}), "duplicate completed")
	expect.OK(t, b.Inspector().DeleteTask("session:"+actors.Key, b.Task("a")))
	others("it is gone")
	expect.Equal(t, "again", submit(turnstile.Message{Text: "a"}), "refused expired")

	if ttl := b.Redis.TTL(b.Ctx, b.Keys.Idem("a")).Val(); ttl <= 23*time.Hour || ttl > 24*time.Hour {
		t.Errorf("the id is remembered for %s", ttl)
	}
	if used := b.Redis.MemoryUsage(b.Ctx, b.Keys.Idem("a")).Val(); used > 200 {
		t.Errorf("an id takes %d bytes", used)
	}
}

// database is the database without when the session was used last.
func database(b *actors.Bench) string {
	var lines []string
	for line := range strings.Lines(b.Dump()) {
		if !strings.HasPrefix(line, rediskey.Sessions) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

// A refused message's ID is not remembered: another message may use it. Neither is an ID that Send
// makes.
func TestRefusedIDsAreFree(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("now")
	b.Start()
	expect.Equal(t, "refused", b.Say("new", session.ModeReject).Reason, "busy")
	r, err := receipt.Input(b.Ctx, b.Client.Session(actors.Key), turnstile.Message{ID: "new", Text: "another text"})
	expect.OK(t, err)
	expect.Equal(t, "the id again", r.Status, receipt.Queued)
	_, err = receipt.Input(b.Ctx, b.Client.Session(actors.Key), turnstile.Message{Text: "without an id"})
	expect.OK(t, err)
	remembered := b.Redis.Keys(b.Ctx, "*:idem:*").Val() // the braces of a tag are a pattern's, too
	slices.Sort(remembered)
	expect.List(t, "remembered", remembered, b.Keys.Idem("new"), b.Keys.Idem("now"))
}
