package model

import (
	"os"
	"strings"
	"testing"

	"turnstile"

	"turnstile/pkg/admin"
	"turnstile/pkg/session"
	"turnstile/test/expect"
	"turnstile/test/modelserver"
)

// The tool charges a card at a receiver that knows idempotency keys: there is a directory for each. Then the model
// fails. The bot knows what it did, and the message that runs again charges no second time.
func TestAFailedTurnIsRemembered(t *testing.T) {
	t.Parallel()
	receiver := t.TempDir()
	charge := shell("charge", `mkdir "$0/$TURNSTILE_STEP_KEY" 2>/dev/null; echo paid`)
	charge.Argv = append(charge.Argv, receiver)
	r := newRig(t, Config{Tools: []Tool{charge}}, call("c1", "charge", `{"eur":12}`), modelserver.Error(400, "invalid_value", "a tool's result was refused"),
		text("I have charged 12 EUR."), call("c2", "charge", `{"eur":12}`), text("Booked."))
	c := work(r, r.agent)
	failed := ends(r, c, say(r, c, turnstile.Message{Text: "book it", Attachments: []session.Attachment{{Name: "me", Mime: "image/png", URL: "https://pictures.test/me.png"}}}), session.StatusFailed)
	ends(r, c, say(r, c, turnstile.Message{Text: "what happened?"}), session.StatusDone)
	r.wasAsked(3, `
user: book it
assistant:  c1=charge({"eur":12})
tool: paid =c1
assistant: [This turn failed here: `+failed.Error+`]
user: what happened?`)

	chat := c.Session(r.Name())
	for _, run := range []func() error{
		func() error { _, err := chat.Undo(t.Context()); return err },
		func() error { _, err := chat.Retry(t.Context()); return err },
	} {
		expect.OK(t, run())
	}
	expect.Soon(t, "the message has run again", func() bool {
		text, _ := transcript(r, c)
		return strings.HasSuffix(text, "assistant: Booked.")
	})
	keys, err := os.ReadDir(receiver)
	expect.OK(t, err)
	expect.Equal(t, "charges", len(keys), 1)
	expect.Equal(t, "dead letters", func() int { info, _ := chat.Info(t.Context()); return info.DeadLetters }(), 0)
}

// A dead letter that runs again gives the model the user's words once.
func TestWordsOfARerunStandOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{}, modelserver.Error(400, "invalid_value", "no"), text("ok"))
	c := work(r, r.agent)
	ends(r, c, say(r, c, turnstile.Message{Text: "hello"}), session.StatusFailed)
	n, err := c.Operate(r.Name()).Rerun(t.Context(), admin.All)
	expect.OK(t, err)
	expect.Equal(t, "rerun", n, 1)
	if _, asked := r.model.Await(2); !asked {
		t.Fatal("the message does not run again")
	}
	if got := r.asked(2); strings.Count(got, "hello") != 1 || !strings.HasSuffix(got, "user: hello") {
		t.Error(got)
	}
}
