package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"turnstile"
	"turnstile/internal/chat/slash"
	"turnstile/internal/protocol/wire"
	"turnstile/pkg/session"
)

// newID is the ID of a message without one, so that a repeated send is safe. A command gets none: it
// would be remembered although nobody knows it.
func newID(text string) string {
	if cmd, args, ok := slash.Parse(text); ok && !cmd.IsMessage(args) {
		return ""
	}
	return turnstile.NewMessageID()
}

// message is the message of the arguments, validated.
func (o options) message(ctx context.Context, words []string, stdin io.Reader) (wire.Message, error) {
	m := wire.Message{
		ID: o.id, Text: strings.Join(words, " "), Mode: session.Mode(o.mode),
		Meta: o.meta, ExpiresIn: wire.Duration(o.expiresIn),
	}
	if o.after != "" {
		return m, nil // the arguments have the text
	}
	if len(words) == 1 && words[0] == "-" {
		var err error
		if m.Text, err = o.readText(ctx, stdin); err != nil {
			return m, err
		}
	}
	if m.ID == "" {
		m.ID = newID(m.Text)
	}
	if len(m.Text) > o.limits.MessageBytes {
		return m, o.tooLong(fmt.Sprintf("the text has %d bytes", len(m.Text)))
	}
	if err := m.Validate(o.limits); err != nil {
		return m, usage(err)
	}
	return m, nil
}

func (o options) tooLong(what string) failure {
	return usage(fmt.Errorf("%w message: %s, at most %d are allowed; put an attachment into a --file line", session.ErrTooLarge, what, o.limits.MessageBytes))
}

// readText reads stdin without its last line break, and little more than a message may have.
func (o options) readText(ctx context.Context, stdin io.Reader) (string, error) {
	type read struct {
		data []byte
		err  error
	}
	done := make(chan read, 1)
	go func() { // it ends with the process if stdin is never closed
		data, err := io.ReadAll(io.LimitReader(stdin, int64(o.limits.MessageBytes)+3))
		done <- read{data, err}
	}()
	select {
	case <-ctx.Done():
		return "", failure{code: exitInterrupted, text: "interrupted while reading stdin; nothing was stored"}
	case r := <-done:
		if r.err != nil {
			return "", usage(fmt.Errorf("read stdin: %w", r.err))
		}
		if len(r.data) > o.limits.MessageBytes+2 {
			return "", o.tooLong(fmt.Sprintf("the text on stdin has more than %d bytes", o.limits.MessageBytes))
		}
		text, ended := strings.CutSuffix(string(r.data), "\n")
		if ended {
			text = strings.TrimSuffix(text, "\r")
		}
		return text, nil
	}
}
