package session

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	// TaskType is the asynq task type of a message.
	TaskType = "turnstile:message"

	// MaxTextLen limits a message's text, in bytes, where Limits do not say otherwise.
	MaxTextLen = 1 << 20

	payloadVersion = 1
)

// Mode says what a message does that finds its session busy.
type Mode string

// The busy modes. The empty mode means the session's, else the worker's default.
const (
	ModeQueue     Mode = "queue"     // wait in line
	ModeCollect   Mode = "collect"   // wait in line, and be one turn with others that do
	ModeSteer     Mode = "steer"     // join the running turn, if its agent takes it; else wait in line
	ModeInterrupt Mode = "interrupt" // cancel the running turn and go next; what it did is kept
	ModeRollback  Mode = "rollback"  // the same, and nothing of it is kept
	ModeReject    Mode = "reject"    // be refused
)

// ParseMode reads a busy mode; the empty string is legal and stays empty. The
// error wraps ErrInvalid.
func ParseMode(s string) (Mode, error) {
	switch m := Mode(s); m {
	case "", ModeQueue, ModeCollect, ModeSteer, ModeInterrupt, ModeRollback, ModeReject:
		return m, nil
	}
	return "", fmt.Errorf("%w mode %q: use %s, %s, %s, %s, %s or %s", ErrInvalid, s,
		ModeQueue, ModeCollect, ModeSteer, ModeInterrupt, ModeRollback, ModeReject)
}

// Message is one thing that a user said. Its JSON form is the payload of the
// asynq task, specified in docs/wire.md for senders in other languages.
type Message struct {
	// ID is unique within its session. It travels as the task's id and not in
	// the payload.
	ID string `json:"-"`

	Text        string            `json:"text"`
	Mode        Mode              `json:"mode,omitempty"`
	Meta        map[string]string `json:"meta,omitempty"`
	Attachments []Attachment      `json:"attachments,omitempty"`

	// ExpiresIn is how long after its arrival (for a delayed message: after its
	// time) the message may still be run. 0: for ever.
	ExpiresIn Duration `json:"expires_in,omitempty"`
}

// Attachment points at a file that came with a message. Turnstile passes it on
// to the agent and never opens it.
type Attachment struct {
	Name string `json:"name"`
	Mime string `json:"mime,omitempty"`
	URL  string `json:"url,omitempty"`
	Path string `json:"path,omitempty"`
	Size int64  `json:"size,omitempty"` // bytes
}

// Validate checks everything but the id, with the default Limits. Errors wrap ErrInvalid.
func (m Message) Validate() error { return Limits{}.Validate(m) }

// valid checks what has no limit.
func (m Message) valid() error {
	switch {
	case strings.TrimSpace(m.Text) == "":
		return fmt.Errorf("%w message: its text is empty", ErrInvalid)
	case !utf8.ValidString(m.Text):
		return fmt.Errorf("%w message: its text is not UTF-8", ErrInvalid)
	case m.ExpiresIn < 0:
		return fmt.Errorf("%w message: expires_in is negative", ErrInvalid)
	}
	for i, a := range m.Attachments {
		switch {
		case a.Name == "":
			return fmt.Errorf("%w attachment %d: it has no name", ErrInvalid, i+1)
		case (a.URL == "") == (a.Path == ""):
			return fmt.Errorf("%w attachment %q: give it a url or a path, one of the two", ErrInvalid, a.Name)
		case a.Size < 0:
			return fmt.Errorf("%w attachment %q: its size is negative", ErrInvalid, a.Name)
		}
	}
	_, err := ParseMode(string(m.Mode))
	return err
}

type payload struct {
	V int `json:"v"`
	Message

	// TooLong is how many bytes a task had whose content lua/archive.lua of
	// internal/protocol has not kept.
	TooLong int64 `json:"too_long,omitempty"`
}

// EncodePayload is the message as an asynq task's payload. A mode is a sender's
// affair, which the payload only repeats; workers of the first version refuse
// messages whose mode they do not know, so those modes are left out.
func (m Message) EncodePayload() ([]byte, error) {
	switch m.Mode {
	case ModeCollect, ModeSteer, ModeRollback:
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

// DecodePayload reads an asynq task's payload and validates it with the default Limits.
// Unknown fields are ignored, and an unknown mode counts as none, so that a newer sender
// can talk to an older worker within one version. Errors wrap ErrInvalid.
func DecodePayload(data []byte) (Message, error) { return Limits{}.DecodePayload(data) }

// Duration is a time.Duration that reads and writes as "1h30m" in JSON; it reads "30d",
// too.
type Duration time.Duration

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := ParseDuration(string(text))
	if err != nil {
		return err
	}
	*d = Duration(v)
	return nil
}

const day = 24 * time.Hour

// ParseDuration is time.ParseDuration that also knows days, at the front: 30d,
// 1d12h. The error wraps ErrInvalid.
func ParseDuration(text string) (time.Duration, error) {
	invalid := fmt.Errorf("%w duration %q: write it as 500ms, 90s, 10m, 1h30m or 30d", ErrInvalid, text)
	var days time.Duration
	if number, rest, ok := strings.Cut(text, "d"); ok {
		n, err := strconv.ParseUint(number, 10, 16)
		if err != nil {
			return 0, invalid
		}
		days = time.Duration(n) * day
		if text = rest; text == "" {
			return days, nil
		}
		if text[0] == '-' || text[0] == '+' {
			return 0, invalid
		}
	}
	d, err := time.ParseDuration(text)
	if err != nil || d > 0 && days > math.MaxInt64-d {
		return 0, invalid
	}
	return days + d, nil
}
