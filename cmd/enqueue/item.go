package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"turnstile/internal/protocol/agents"
	"turnstile/internal/protocol/wire"
	"turnstile/internal/text/strictjson"
	"turnstile/pkg/session"
)

// item is one message of a file.
type item struct {
	line    int
	bytes   int
	session string
	message wire.Message
	delay   wire.Duration
	route   wire.Route
	agent   string
}

// entry is a line's message or error. broken says that no line can be read after it. The last entry
// is io.EOF.
type entry struct {
	item
	err    error
	broken bool
}

// each reads all lines that are not blank.
func (l *lines) each(ctx context.Context, o options, entries chan<- entry) {
	read := 0
	for {
		text, n, err := l.next()
		read += n
		var e entry
		switch {
		case err == nil && len(bytes.TrimSpace(text)) == 0:
			continue
		case err == nil:
			e.item, e.err = o.item(text)
		case errors.Is(err, io.EOF), errors.Is(err, errLongLine):
			e.err = err
		default:
			e.err, e.broken = fmt.Errorf("the file cannot be read further: %w", err), true
			l.number++
		}
		e.line, e.bytes = l.number, read
		read = 0
		select {
		case <-ctx.Done():
			return
		case entries <- e:
		}
		if errors.Is(e.err, io.EOF) || e.broken {
			return
		}
	}
}

// fields are the fields of a line.
type fields struct {
	Session     *string              `json:"session"`
	ID          *string              `json:"id"`
	Text        string               `json:"text"`
	Mode        session.Mode         `json:"mode"`
	Meta        map[string]string    `json:"meta"`
	Attachments []session.Attachment `json:"attachments"`
	In          *wire.Duration       `json:"in"`
	ExpiresIn   *wire.Duration       `json:"expires_in"`
	ReplyTo     *string              `json:"reply_to"`
	Context     json.RawMessage      `json:"context"`
	DeliverBy   *string              `json:"deliver_by"`
	Agent       *string              `json:"agent"`
}

// item reads one line. The flags are its defaults.
func (o options) item(text []byte) (item, error) {
	var line fields
	if !utf8.Valid(text) {
		return item{}, fmt.Errorf("%w JSON: it is not UTF-8", session.ErrInvalid)
	}
	if string(bytes.TrimSpace(text)) == "null" { // the decoder takes it for an object without fields
		return item{}, errNoObject
	}
	if err := strictjson.Decode(text, &line); err != nil {
		return item{}, lineError(text, err)
	}
	it := item{
		session: or(line.Session, o.session),
		delay:   or(line.In, wire.Duration(o.in)),
		message: wire.Message{
			ID: or(line.ID, ""), Text: line.Text, Mode: line.Mode, Meta: line.Meta, Attachments: line.Attachments,
			ExpiresIn: or(line.ExpiresIn, wire.Duration(o.expiresIn)),
		},
		route: o.route(),
		agent: or(line.Agent, o.agent),
	}
	it.route.To = or(line.ReplyTo, it.route.To)
	if line.Context != nil {
		it.route.Context = line.Context
	}
	if line.DeliverBy != nil {
		var err error
		if it.route, err = it.route.DeliverBy(*line.DeliverBy); err != nil {
			return it, err
		}
	}
	if it.message.Mode == "" {
		it.message.Mode = session.Mode(o.mode)
	}
	for k, v := range o.meta {
		if it.message.Meta == nil {
			it.message.Meta = map[string]string{}
		}
		if _, ok := it.message.Meta[k]; !ok {
			it.message.Meta[k] = v
		}
	}
	if line.ID == nil {
		it.message.ID = newID(it.message.Text)
	} else if err := session.ValidateID(it.message.ID); err != nil {
		return it, err
	}
	if line.Session == nil && o.session == "" {
		return it, fmt.Errorf("%w message: it has no session: write \"session\", or give -s", session.ErrInvalid)
	}
	if err := session.ValidateKey(it.session); err != nil {
		return it, err
	}
	if it.delay < 0 {
		return it, fmt.Errorf("%w message: in is negative", session.ErrInvalid)
	}
	if err := agents.ValidateName(it.agent); it.agent != "" && err != nil {
		return it, err
	}
	if err := it.route.Validate(); err != nil {
		return it, err
	}
	return it, it.message.Validate(o.limits)
}

func or[T any](v *T, fallback T) T {
	if v == nil {
		return fallback
	}
	return *v
}
