package main

import (
	"testing"
	"time"

	"turnstile/internal/protocol"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// --answer gives a value to the turn that waits for it, and says so if none does.
func TestAnswer(t *testing.T) {
	t.Parallel()
	url, rdb := newRedis(t)
	for _, args := range [][]string{
		{"--answer", "", "1"}, {"--answer", "payment"}, {"--answer", "payment", "--wait", "1"}, {"--answer", "payment", "--id", "x", "1"},
		{"--answer", "payment", "{"}, {"--answer", "payment", "--file", "x", "1"},
	} {
		enqueue(t, bg(t), url, "", append([]string{"-s", "a"}, args...)...).want(t, exitUsage)
	}
	r := enqueue(t, bg(t), url, "", "-s", "a", "--answer", "payment", "1").want(t, exitRefused)
	expect.Equal(t, "stderr", r.err, "enqueue: no turn waits for this value\n")

	enqueue(t, bg(t), url, "", "-s", "a", "hello").want(t, exitOK)
	w, err := actors.NewConsumer(rdb, protocol.Config{Worker: "w", SentinelTTL: time.Hour})
	expect.OK(t, err)
	claims, err := w.Claim(bg(t), []string{"a"})
	expect.OK(t, err)
	h := claims[0]
	_, err = h.Journal(bg(t), protocol.JournalWrite{HasSteps: true, Messages: []string{h.Turn().Message.ID}, Entries: map[int]session.Entry{}, Steps: map[string]string{"s": `{"state":"ended"}`}})
	expect.OK(t, err)
	_, err = h.WaitFor(bg(t), "payment", "secret", false, 0)
	expect.OK(t, err)

	r = enqueue(t, bg(t), url, `{"paid": true}`, "-s", "a", "--answer", "payment", "-").want(t, exitOK)
	expect.Equal(t, "stdout", r.out, "the turn of session a has the value of payment\n")
	r = enqueue(t, bg(t), url, "", "-s", "a", "--json", "--answer", "payment", `{"paid":true}`).want(t, exitOK)
	expect.Equal(t, "stdout", r.out, `{"session":"a","answer":"payment"}`+"\n")
	r = enqueue(t, bg(t), url, "", "-s", "a", "--answer", "payment", "2").want(t, exitRefused)
	expect.Equal(t, "stderr", r.err, "enqueue: another value was given before\n")
	known, err := h.WaitFor(bg(t), "payment", "secret", false, 0)
	expect.OK(t, err)
	value, _ := known.Value()
	expect.Equal(t, "value", string(value), `{"paid":true}`)
}
