// Package wire has the stored forms of a message and of its route, as docs/wire.md specifies them for
// senders in other languages, and reads the words of settings.
package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"turnstile/pkg/session"
)

const (
	// TaskType is the type of a message's asynq task.
	TaskType = "turnstile:message"

	payloadVersion = 1
)

// Message is a user's message. Its JSON is the payload of an asynq task, which docs/wire.md
// specifies for senders in other languages.
type Message struct {
	// ID is unique within its session. It is the task's ID and not part of the payload.
	ID string `json:"-"`

	// TraceParent is the W3C traceparent that the message's turn belongs to. It is a header of the
	// task and not part of the payload: the same message with another one is no conflict. An
	// invalid one is ignored. Defaults to "": none.
	TraceParent string `json:"-"`

	Text        string               `json:"text"`
	Mode        session.Mode         `json:"mode,omitempty"`
	Meta        map[string]string    `json:"meta,omitempty"`
	Attachments []session.Attachment `json:"attachments,omitempty"`

	// ExpiresIn is how long the message may wait for its turn, after its arrival or its delay.
	// Defaults to 0: no limit.
	ExpiresIn Duration `json:"expires_in,omitempty"`

	// Request is what the sender's program brings for the agent's model.
	Request *session.ModelRequest `json:"request,omitempty"`
}

// Said is the message without its rules.
func (m Message) Said() session.Message {
	return session.Message{ID: m.ID, Text: m.Text, Meta: m.Meta, Attachments: m.Attachments, Request: m.Request}
}

// valid checks the rules that have no limit.
func (m Message) valid() error {
	switch {
	case strings.TrimSpace(m.Text) == "" && (m.Request == nil || len(m.Request.Results)+len(m.Request.Past)+len(m.Request.Instructions) == 0):
		return fmt.Errorf("%w message: its text is empty", session.ErrInvalid)
	case !utf8.ValidString(m.Text):
		return fmt.Errorf("%w message: its text is not UTF-8", session.ErrInvalid)
	case m.ExpiresIn < 0:
		return fmt.Errorf("%w message: expires_in is negative", session.ErrInvalid)
	}
	if err := validAttachments(m.Attachments); err != nil {
		return err
	}
	if _, err := ParseMode(string(m.Mode)); err != nil || m.Request == nil {
		return err
	}
	if m.Mode == session.ModeCollect || m.Mode == session.ModeSteer {
		return fmt.Errorf("%w mode %s: a message with a request for the model has a turn of its own", session.ErrInvalid, m.Mode)
	}
	return validRequest(*m.Request)
}

func validAttachments(list []session.Attachment) error {
	for i, a := range list {
		switch {
		case a.Name == "":
			return fmt.Errorf("%w attachment %d: it has no name", session.ErrInvalid, i+1)
		case (a.URL == "") == (a.Path == ""):
			return fmt.Errorf("%w attachment %.100q: give it a url or a path, one of the two", session.ErrInvalid, a.Name)
		case a.Size < 0:
			return fmt.Errorf("%w attachment %.100q: its size is negative", session.ErrInvalid, a.Name)
		}
	}
	return nil
}

type payload struct {
	V int `json:"v"`
	Message

	// TooLong is set by internal/protocol when it archives a task that is too long: the task's
	// bytes, in place of its content.
	TooLong int64 `json:"too_long,omitempty"`
}

// Payload returns the message as an asynq task's payload, however large. It omits the modes collect,
// steer and rollback: the sender's script acts on them.
func (m Message) Payload() ([]byte, error) {
	switch m.Mode {
	case session.ModeCollect, session.ModeSteer, session.ModeRollback:
		m.Mode = ""
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(payload{V: payloadVersion, Message: m}); err != nil {
		return nil, fmt.Errorf("encode message: %w", err)
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// The parts of a traceparent of W3C Trace Context: version-traceid-parentid-flags.
const (
	traceID   = 3
	parentID  = traceID + 32 + 1
	flags     = parentID + 16 + 1
	traceMost = flags + 2
)

// TraceParent returns a header's W3C traceparent in the form that messages have, or "" if the value
// is invalid. Of a later version it returns the fields of version 00.
func TraceParent(value string) string {
	if len(value) < traceMost || value[2] != '-' || value[parentID-1] != '-' || value[flags-1] != '-' {
		return ""
	}
	version, rest := value[:2], value[traceMost:]
	for _, part := range []string{version, value[traceID : parentID-1], value[parentID : flags-1], value[flags:traceMost]} {
		if strings.Trim(part, "0123456789abcdef") != "" {
			return ""
		}
	}
	switch {
	case version == "ff", version == "00" && rest != "", rest != "" && rest[0] != '-',
		strings.Trim(value[traceID:parentID-1], "0") == "", strings.Trim(value[parentID:flags-1], "0") == "":
		return ""
	}
	return "00" + value[2:traceMost]
}
