package turnstile_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"turnstile"

	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// Each limit has its error, and nothing is stored.
func TestSubmitRefusesWhatIsTooLarge(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	for what, m := range actors.OverLimits() {
		_, err := b.Chat().Send(b.Ctx, turnstile.Message{ID: "m", Text: m.Text, Meta: m.Meta, Attachments: m.Attachments})
		if !errors.Is(err, session.ErrInvalid) || !strings.Contains(fmt.Sprint(err), what) {
			t.Errorf("%s: %.200v", what, err)
		}
		expect.Equal(t, what+": keys", len(b.Redis.Keys(b.Ctx, "*").Val()), 0)
		b.Redis.FlushDB(b.Ctx) // the clock and the version come first
	}
}

// No limit is said by NoLimit, where it may be. A negative limit would otherwise refuse each message as
// one too many.
func TestSubmitRefusesNegativeLimits(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	for _, l := range []session.Limits{{MessageBytes: -1}, {Queue: session.NoLimit}, {Outbox: -1}, {AllQueues: -2}, {Destination: -2}} {
		_, err := turnstile.NewClient(b.Redis, turnstile.ClientConfig{Limits: l}).Session(actors.Key).Send(b.Ctx, turnstile.Message{Text: "a"})
		if !errors.Is(err, session.ErrInvalid) || errors.Is(err, session.ErrFull) {
			t.Errorf("%+v: %v", l, err)
		}
	}
	no := session.Limits{AllQueues: session.NoLimit, Destination: session.NoLimit}
	_, err := turnstile.NewClient(b.Redis, turnstile.ClientConfig{Limits: no}).Session(actors.Key).Send(b.Ctx, turnstile.Message{Text: "a"})
	expect.OK(t, err)
}
