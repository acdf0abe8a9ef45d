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
	// TaskType is the type of a message's asynq task.
	TaskType = "turnstile:message"

	payloadVersion = 1
)

// Mode is what a message does while a turn runs in its session.
type Mode string

// The modes. The empty mode means the session's (see QueueSettings), or the worker's if the session
// has none.
const (
	ModeQueue     Mode = "queue"     // wait in line
	ModeCollect   Mode = "collect"   // wait in line, and run in one turn with other such messages
	ModeSteer     Mode = "steer"     // join the running turn if its agent can take it, else wait in line
	ModeInterrupt Mode = "interrupt" // cancel the running turn and run next; its entries stay
	ModeRollback  Mode = "rollback"  // cancel the running turn and run next; its entries are dropped
	ModeReject    Mode = "reject"    // be refused
)

// ParseMode reads a mode. "" is the empty mode. The error wraps ErrInvalid.
func ParseMode(s string) (Mode, error) {
	switch m := Mode(s); m {
	case "", ModeQueue, ModeCollect, ModeSteer, ModeInterrupt, ModeRollback, ModeReject:
		return m, nil
	}
	return "", fmt.Errorf("%w mode %.100q: use %s, %s, %s, %s, %s or %s", ErrInvalid, s,
		ModeQueue, ModeCollect, ModeSteer, ModeInterrupt, ModeRollback, ModeReject)
}

// Message is what a user says. Its JSON is the payload of an asynq task, which docs/wire.md
// specifies for senders in other languages.
type Message struct {
	// ID is unique within its session. It is the task's id and not part of the payload.
	ID string `json:"-"`

	// TraceParent is the traceparent of W3C Trace Context to which the message's turn belongs. It is
	// a header of the task and not part of the payload: the same message with another one is no
	// conflict. An invalid one is ignored. Defaults to "": none.
	TraceParent string `json:"-"`

	Text        string            `json:"text"`
	Mode        Mode              `json:"mode,omitempty"`
	Meta        map[string]string `json:"meta,omitempty"`
	Attachments []Attachment      `json:"attachments,omitempty"`

	// ExpiresIn is for how long after its arrival the message may start to run; for a delayed
	// message, after it joins the line. Defaults to 0: without limit.
	ExpiresIn Duration `json:"expires_in,omitempty"`
}

// Attachment is a reference to a file. Turnstile hands it to the agent and does not open the file.
// Name is required, and either URL or Path.
type Attachment struct {
	Name string `json:"name"`
	Mime string `json:"mime,omitempty"`
	URL  string `json:"url,omitempty"`
	Path string `json:"path,omitempty"`
	Size int64  `json:"size,omitempty"` // bytes
}

// Validate is Limits.Validate with the default limits.
func (m Message) Validate() error { return Limits{}.Validate(m) }

// valid checks the rules that have no limit.
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
			return fmt.Errorf("%w attachment %.100q: give it a url or a path, one of the two", ErrInvalid, a.Name)
		case a.Size < 0:
			return fmt.Errorf("%w attachment %.100q: its size is negative", ErrInvalid, a.Name)
		}
	}
	_, err := ParseMode(string(m.Mode))
	return err
}

type payload struct {
	V int `json:"v"`
	Message

	// TooLong is set by internal/protocol when it archives a task that is too long: the task's
	// bytes, in place of its content.
	TooLong int64 `json:"too_long,omitempty"`
}

// EncodePayload returns the message as an asynq task's payload. It omits the modes collect,
// steer and rollback: the sender's script acts on them.
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

// DecodePayload reads an asynq task's payload and validates it with the default limits. It ignores
// fields and modes that it does not know, because a newer sender may use them. Errors wrap
// ErrInvalid.
func DecodePayload(data []byte) (Message, error) { return Limits{}.DecodePayload(data) }

// Duration is a time.Duration that is a string in JSON, such as "1h30m0s". It also reads days, such
// as 30d or 1d12h.
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

// ParseDuration is time.ParseDuration that also reads days at the front, such as 30d or 1d12h. The
// error wraps ErrInvalid.
func ParseDuration(text string) (time.Duration, error) {
	invalid := fmt.Errorf("%w duration %.100q: write it as 500ms, 90s, 10m, 1h30m or 30d", ErrInvalid, text)
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
