package protocol_test

import (
	"errors"
	"strings"
	"testing"

	"turnstile"
	sq "turnstile/internal/protocol"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// A program may have other limits.
func TestProgramMaySetOtherLimits(t *testing.T) {
	t.Parallel()
	limits := session.Limits{Text: 10, Meta: 10, Attachments: 1, Payload: 100}
	b := newBench(t, func(c *sq.Config) { c.Limits = limits })
	b.client = actors.NewClientWith(b.rdb, turnstile.ClientConfig{Limits: limits})
	for _, m := range []session.Message{
		{Text: "more than ten"}, {Text: "a", Meta: map[string]string{"name": "a value"}}, {Text: "a", Attachments: make([]session.Attachment, 2)},
		{Text: "a", Attachments: []session.Attachment{{Name: strings.Repeat("x", 100), Path: "p"}}},
	} {
		if _, err := b.client.Submit(b.ctx, key, m); !errors.Is(err, session.ErrTooLarge) {
			t.Errorf("%.20v: %v", m, err)
		}
	}
	expect.Equal(t, "accepted", b.say("ten").Status, turnstile.Accepted)
	b.enqueueRaw(session.TaskType, `{"v":1,"text":"more than ten"}`, b.task("plain"))
	h := b.start()
	expect.Equal(t, "goes on", b.finish(h), true)
	expect.Equal(t, "judged", errors.Is(h.Turn().Err, session.ErrTooLarge), true)
}
