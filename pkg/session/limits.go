package session

import (
	"fmt"

	"turnstile/internal/boundedjson"
)

// Limits bound the size of one message. A zero field means its default. A sender checks them before
// it stores a message. A worker checks them when it takes one: a larger message becomes a dead
// letter.
type Limits struct {
	// Text is the most bytes of the text. Defaults to MaxTextLen, 1 MiB.
	Text int

	// Meta is the most bytes of all names and values of meta. Defaults to 64 KiB.
	Meta int

	// Attachments is the most attachments. Defaults to 100.
	Attachments int

	// Payload is the most bytes of the message as JSON. Defaults to 2 MiB.
	Payload int
}

// WithDefaults returns l with the defaults in place of its zero fields.
func (l Limits) WithDefaults() Limits {
	for _, d := range []struct {
		v   *int
		def int
	}{{&l.Text, MaxTextLen}, {&l.Meta, 64 << 10}, {&l.Attachments, 100}, {&l.Payload, 2 << 20}} {
		if *d.v == 0 {
			*d.v = d.def
		}
	}
	return l
}

// Validate checks a message, except for its id and its size as JSON. Errors wrap ErrInvalid; those
// about a size wrap ErrTooLarge.
func (l Limits) Validate(m Message) error {
	l = l.WithDefaults()
	meta := 0
	for name, value := range m.Meta {
		meta += len(name) + len(value)
	}
	switch {
	case len(m.Text) > l.Text:
		return fmt.Errorf("%w message: its text has %d bytes, at most %d are allowed; attach a file instead", ErrTooLarge, len(m.Text), l.Text)
	case meta > l.Meta:
		return fmt.Errorf("%w message: its meta has %d bytes, at most %d are allowed", ErrTooLarge, meta, l.Meta)
	case len(m.Attachments) > l.Attachments:
		return fmt.Errorf("%w message: it has %d attachments, at most %d are allowed", ErrTooLarge, len(m.Attachments), l.Attachments)
	}
	return m.valid()
}

// EncodePayload is Message.EncodePayload with these limits: the error wraps ErrTooLarge if the
// payload is too large.
func (l Limits) EncodePayload(m Message) ([]byte, error) {
	data, err := m.EncodePayload()
	if err == nil {
		err = l.payload(len(data))
	}
	if err != nil {
		return nil, err
	}
	return data, nil
}

func (l Limits) payload(n int) error {
	if most := l.WithDefaults().Payload; n > most {
		return fmt.Errorf("%w message: it has %d bytes in JSON, at most %d are allowed; attach files instead", ErrTooLarge, n, most)
	}
	return nil
}

// DecodePayload is the function DecodePayload with these limits. If the payload is too large, it
// returns ErrTooLarge without parsing.
func (l Limits) DecodePayload(data []byte) (Message, error) {
	if err := l.payload(len(data)); err != nil {
		return Message{}, err
	}
	var p payload
	if err := boundedjson.Unmarshal(data, &p); err != nil {
		return Message{}, fmt.Errorf("%w payload: not a message in JSON: %.500s", ErrInvalid, err.Error())
	}
	if p.V != payloadVersion {
		return Message{}, fmt.Errorf("%w payload: version %d, this program knows version %d", ErrInvalid, p.V, payloadVersion)
	}
	if p.TooLong > 0 {
		return Message{}, fmt.Errorf("%w message: its task had %d bytes, and its content was not kept", ErrTooLarge, p.TooLong)
	}
	if _, err := ParseMode(string(p.Mode)); err != nil {
		p.Mode = ""
	}
	return p.Message, l.Validate(p.Message)
}
