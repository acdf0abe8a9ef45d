package protocol_test

import (
	"errors"
	"strings"
	"testing"

	"turnstile"
	"turnstile/internal/chat/receipt"
	"turnstile/internal/protocol"
	"turnstile/internal/protocol/wire"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// A program may have other limits.
func TestProgramMaySetOtherLimits(t *testing.T) {
	t.Parallel()
	limits := session.Limits{MessageBytes: 29}
	b := actors.NewBench(t, func(c *protocol.Config) { c.Limits = limits })
	b.Client = actors.NewClientWith(b.Redis, turnstile.ClientConfig{Limits: limits})
	for _, m := range []turnstile.Message{
		{Text: "more than ten"}, {Text: "a", Meta: map[string]string{"name": "a value"}},
		{Text: "a", Attachments: []session.Attachment{{Name: strings.Repeat("x", 100), Path: "p"}}},
	} {
		if _, err := receipt.Input(b.Ctx, b.Client.Session(actors.Key), m); !errors.Is(err, session.ErrTooLarge) {
			t.Errorf("%.20v: %v", m, err)
		}
	}
	expect.Equal(t, "accepted", b.Say("ten").Status, receipt.Accepted)
	b.EnqueueTask(wire.TaskType, `{"v":1,"text":"more than ten"}`, b.Task("plain"))
	h := b.Start()
	expect.Equal(t, "has a next turn", b.Finish(h), true)
	expect.Equal(t, "judged", errors.Is(h.Turn().Err, session.ErrTooLarge), true)
}
