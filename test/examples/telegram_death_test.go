package examples

import (
	"strings"
	"testing"

	"turnstile/test/expect"
)

// A bot that dies while it polls loses no message, and sends no reply twice.
func TestTelegramBotDiesPolling(t *testing.T) {
	t.Parallel()
	rig := newTelegramRig(t)
	rig.starts()
	rig.polling()
	rig.bot.Kill()
	rig.says(ann, "while away")
	rig.starts()
	rig.await(ann, 1, "echo: while away")
	rig.delivered("telegram:dm:1001") // a bot that dies before it stores the delivery sends it twice

	// The gateway accepts this one, and the bot dies before it knows.
	rig.polling()
	rig.diesAt(rig.gateway)
	rig.says(ann, "twice")
	rig.bot.ExitCode()
	rig.starts()
	rig.await(ann, 2, "echo: twice")
	rig.polling()
	keys := rig.gateway.headers("/messages", "Idempotency-Key")
	if n := len(keys); keys[n-1] != keys[n-2] {
		t.Errorf("a repeated message has another key: %q", keys)
	}
	rig.says(ann, "after")
	rig.await(ann, 3, "echo: after")
	expect.List(t, "replies", rig.texts(ann), "echo: while away", "echo: twice", "echo: after")
}

// If a bot dies before it knows that Telegram took a reply, it sends the reply again, marked with
// the delivery's ID. Nothing is lost.
func TestTelegramBotDiesSending(t *testing.T) {
	t.Parallel()
	rig := newTelegramRig(t)
	rig.starts()
	rig.polling()
	rig.change(func() { rig.swallow = true })
	rig.says(ann, "once or twice")
	rig.await(ann, 1, "echo: once or twice")
	rig.bot.Kill()
	rig.starts()
	rig.await(ann, 2, "echo: once or twice")
	id := rig.deliveries.headers("", "webhook-id")[0]
	rig.bot.Output.Await(t, "delivery "+id+" was begun before: message 1 of it may come twice")
	rig.says(ann, "after")
	rig.await(ann, 3, "echo: after")
	expect.Equal(t, "messages", len(rig.in(ann)), 3)
}

// A bot that dies after sendMessage and before its response to the delivery does not send again.
func TestTelegramBotDiesBeforeItAcknowledges(t *testing.T) {
	t.Parallel()
	rig := newTelegramRig(t)
	rig.starts()
	rig.diesAt(rig.deliveries)
	rig.says(ann, "once")
	rig.await(ann, 1, "echo: once")
	rig.bot.ExitCode()
	rig.starts()
	rig.says(ann, "after")
	rig.await(ann, 2, "echo: after")
	expect.List(t, "replies", rig.texts(ann), "echo: once", "echo: after")
	ids := rig.deliveries.headers("", "webhook-id")
	if ids[0] != ids[1] {
		t.Errorf("the delivery did not come again: %q", ids)
	}
}

// A bot that dies in the middle of a reply continues in the same message.
func TestTelegramBotDiesStreaming(t *testing.T) {
	t.Parallel()
	rig := newTelegramRig(t)
	rig.starts()
	rig.says(ann, streaming)
	expect.Soon(t, "a preview", func() bool { return len(rig.in(ann)) > 0 && len(rig.in(ann)[0].Texts) > 1 })
	rig.polling()
	rig.bot.Kill()
	before := len(rig.in(ann)[0].Texts)
	rig.starts()
	expect.Soon(t, "another preview", func() bool { return len(rig.in(ann)[0].Texts) > before })
	rig.await(ann, 1, streamed)
	for _, text := range rig.in(ann)[0].Texts {
		if !strings.HasPrefix(streamed, text) {
			t.Errorf("a preview is %q", text)
		}
	}
	expect.Equal(t, "messages", len(rig.in(ann)), 1)
}
