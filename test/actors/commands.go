package actors

import (
	"strings"

	"turnstile"
	"turnstile/internal/chat/receipt"
	"turnstile/internal/protocol"
	"turnstile/pkg/session"
	"turnstile/test/expect"
)

// Asks lets the turn ask a question, and returns its number.
func (b *Bench) Asks(h *protocol.Claim, name string) int {
	b.Helper()
	number, err := h.Ask(b.Ctx, session.Question{Name: name})
	expect.OK(b, err)
	return number
}

// Command carries out a slash command as a user writes it, and returns its reply.
func (b *Bench) Command(text string) string {
	b.Helper()
	return b.Receipt(text, false).Reply
}

// Receipt returns a command's receipt; invalid says whether its arguments must be wrong.
func (b *Bench) Receipt(text string, invalid bool) receipt.Receipt {
	b.Helper()
	r, err := receipt.Input(b.Ctx, b.Chat(), turnstile.Message{Text: text})
	expect.OK(b, err)
	expect.Equal(b, "status of "+text, r.Status, receipt.Answered)
	expect.Equal(b, "invalid: "+text, r.Invalid, invalid)
	return r
}

// Replies checks a command's reply.
func (b *Bench) Replies(text, want string) {
	b.Helper()
	if got := b.Command(text); !strings.Contains(got, want) {
		b.Errorf("%s has the reply %q, want something with %q", text, got, want)
	}
}
