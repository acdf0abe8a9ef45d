package wire

import (
	"fmt"

	"turnstile/internal/text/boundedjson"
	"turnstile/pkg/session"
)

// maxAttachments bounds the attachments of a message in addition to Limits: agents read their list
// in a prompt, and people on a page.
const maxAttachments = 100

// Validate checks a message, except for its ID and its size as JSON, which Encode checks. Errors wrap
// session.ErrInvalid; those about a size wrap session.ErrTooLarge.
func (m Message) Validate(l session.Limits) error {
	switch most := l.WithDefaults().MessageBytes; {
	case len(m.Text) > most:
		return fmt.Errorf("%w message: its text has %d bytes, and a message may have %d bytes in JSON; attach a file instead", session.ErrTooLarge, len(m.Text), most)
	case len(m.Attachments) > maxAttachments:
		return fmt.Errorf("%w message: it has %d attachments, at most %d are allowed", session.ErrTooLarge, len(m.Attachments), maxAttachments)
	}
	return m.valid()
}

// Encode is Payload, or an error that wraps session.ErrTooLarge if the limits do not allow that size.
func (m Message) Encode(l session.Limits) ([]byte, error) {
	data, err := m.Payload()
	if err == nil {
		err = allowed(len(data), l)
	}
	if err != nil {
		return nil, err
	}
	return data, nil
}

// ValidateLimits returns an error if a limit is negative, unless it is session.NoLimit where that is
// allowed. The error wraps session.ErrInvalid.
func ValidateLimits(l session.Limits) error {
	switch {
	case l.MessageBytes < 0, l.Queue < 0, l.Outbox < 0, l.AllQueues < session.NoLimit, l.Destination < session.NoLimit:
		return fmt.Errorf("%w limits %+v: a number is negative; NoLimit is for AllQueues and Destination", session.ErrInvalid, l)
	}
	return nil
}

func allowed(n int, l session.Limits) error {
	if most := l.WithDefaults().MessageBytes; n > most {
		return fmt.Errorf("%w message: it has %d bytes in JSON, at most %d are allowed; attach files instead", session.ErrTooLarge, n, most)
	}
	return nil
}

// Decode reads an asynq task's payload and validates it. It ignores fields and modes that it does
// not know, because a newer sender may use them. Errors wrap session.ErrInvalid. A payload that is
// too large is not parsed: session.ErrTooLarge.
func Decode(data []byte, l session.Limits) (Message, error) {
	if err := allowed(len(data), l); err != nil {
		return Message{}, err
	}
	var p payload
	if err := boundedjson.Unmarshal(data, &p); err != nil {
		return Message{}, fmt.Errorf("%w payload: not a message in JSON: %.500s", session.ErrInvalid, err.Error())
	}
	if p.V != payloadVersion {
		return Message{}, fmt.Errorf("%w payload: version %d, this program knows version %d", session.ErrInvalid, p.V, payloadVersion)
	}
	if p.TooLong > 0 {
		return Message{}, fmt.Errorf("%w message: its task had %d bytes, and its content was not kept", session.ErrTooLarge, p.TooLong)
	}
	if _, err := ParseMode(string(p.Mode)); err != nil {
		p.Mode = ""
	}
	return p.Message, p.Message.Validate(l)
}
