package session

import (
	"cmp"
	"fmt"

	"turnstile/internal/boundedjson"
)

// maxAttachments bounds the attachments of a message, whatever Limits say: agents read their list in a
// prompt, and people on a page.
const maxAttachments = 100

// Limits bound what is stored. Give senders and workers the same. A zero field means its default.
type Limits struct {
	// MessageBytes is the most bytes of one message as JSON. A sender refuses a larger message, and a
	// worker makes it a dead letter. Defaults to 2 MiB.
	MessageBytes int

	// Queue is how many messages may wait in one session, whether or not a turn runs. Delayed
	// messages may fill half of it, rounded up. Defaults to 10,000.
	Queue int

	// AllQueues is how many messages may wait in all sessions together. Workers count them every
	// 20 s, so senders may exceed it by what they send meanwhile. Messages for a session with a
	// running turn count against Queue only. Defaults to NoLimit.
	AllQueues int

	// Outbox is how many outcomes of a session's messages may be owed to destinations or wait for
	// their delivery. Defaults to 1,000.
	Outbox int

	// Destination is how many outcomes all sessions together may owe one destination or store for
	// it, or NoLimit. Workers count them every 20 s and senders read the counts once a second, so
	// senders may exceed it by what they send meanwhile. Defaults to 1,000,000.
	Destination int
}

// WithDefaults returns l with the defaults in place of its zero fields.
func (l Limits) WithDefaults() Limits {
	return Limits{
		MessageBytes: cmp.Or(l.MessageBytes, 2<<20), Queue: cmp.Or(l.Queue, 10_000), AllQueues: cmp.Or(l.AllQueues, NoLimit),
		Outbox: cmp.Or(l.Outbox, 1000), Destination: cmp.Or(l.Destination, 1_000_000),
	}
}

// Validate checks a message, except for its id and its size as JSON, which EncodePayload checks.
// Errors wrap ErrInvalid; those about a size wrap ErrTooLarge.
func (l Limits) Validate(m Message) error {
	switch most := l.WithDefaults().MessageBytes; {
	case len(m.Text) > most:
		return fmt.Errorf("%w message: its text has %d bytes, and a message may have %d bytes in JSON; attach a file instead", ErrTooLarge, len(m.Text), most)
	case len(m.Attachments) > maxAttachments:
		return fmt.Errorf("%w message: it has %d attachments, at most %d are allowed", ErrTooLarge, len(m.Attachments), maxAttachments)
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
	if most := l.WithDefaults().MessageBytes; n > most {
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
