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
