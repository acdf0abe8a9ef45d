package turnstile_test

import (
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/internal/chat/receipt"
	"turnstile/internal/protocol"
	"turnstile/internal/redis/redisconn"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// A message without an ID is stored, and the reply is lost. Before the sender repeats the request,
// the message runs and its task is deleted. Refusing the repetition is not refusing the message.
func TestRefusalOfARepetition(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		mode    session.Mode
		options []actors.Option
	}{
		"on the full path":                 {options: []actors.Option{actors.After("before")}},
		"on the full path behind the fast": {mode: session.ModeReject},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t, func(c *protocol.Config) { c.Retention = 0 })
			b.Say("before")
			b.Drain()
			b.Load("accept")
			wire, ran := &redistest.Wire{}, 0
			wire.LoseReply(func(cmd redis.Cmder) bool {
				if !actors.Script("accept")(cmd) {
					return false
				}
				if ran == 0 && len(b.Waiting()) > 0 { // between the two attempts
					ran = len(b.Drain())
					b.Say("next")
					b.Start()
				}
				return true
			}, redistest.CarriedOut)
			client := actors.NewClient(wire.Client(t, b.Redis))
			r, err := receipt.Input(b.Ctx, client.Session(actors.Key), actors.With(turnstile.Message{Text: "x", Mode: c.mode}, c.options...))
			expect.Equal(t, "turns of the message", ran, 1)
			if !errors.Is(err, redisconn.ErrUnsure) || errors.Is(err, session.ErrUnchanged) {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
}
