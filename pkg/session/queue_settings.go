package session

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// DropPolicy is what happens when a message arrives and the line is full.
type DropPolicy string

// The drop policies.
const (
	DropNew       DropPolicy = "new"       // the new message is refused
	DropOld       DropPolicy = "old"       // the oldest waiting message is archived
	DropSummarize DropPolicy = "summarize" // like DropOld, and the next turn's note shows the beginning of the message
)

// ParseDropPolicy reads a drop policy. "" is the empty policy. The error wraps ErrInvalid.
func ParseDropPolicy(s string) (DropPolicy, error) {
	switch d := DropPolicy(s); d {
	case "", DropNew, DropOld, DropSummarize:
		return d, nil
	}
	return "", fmt.Errorf("%w drop policy %.100q: use %s, %s or %s", ErrInvalid, s, DropNew, DropOld, DropSummarize)
}

// The highest values of QueueSettings.
const (
	MaxDebounce = time.Hour
	MaxQueueCap = 10_000
)

// QueueSettings are a session's rules for messages that arrive while a turn runs. A zero field
// means the worker's setting.
type QueueSettings struct {
	// Mode is the mode of a message that has none.
	Mode Mode `json:"mode,omitempty"`

	// Debounce is how long collected messages wait for another one. In JSON it is in ms.
	Debounce Millis `json:"debounce_ms,omitempty"`

	// Cap is how many messages may wait for the running turn. When that many are collected, they
	// wait no longer.
	Cap int `json:"cap,omitempty"`

	// Drop is what happens to messages beyond Cap.
	Drop DropPolicy `json:"drop,omitempty"`
}

// DefaultQueueSettings returns the defaults of a worker: ModeQueue, a debounce of 1 s, a cap of
// 100, DropNew.
func DefaultQueueSettings() QueueSettings {
	return QueueSettings{Mode: ModeQueue, Debounce: Millis(time.Second), Cap: 100, Drop: DropNew}
}

// Over returns s with base's values in place of its zero fields.
func (s QueueSettings) Over(base QueueSettings) QueueSettings {
	if s.Mode != "" {
		base.Mode = s.Mode
	}
	if s.Debounce != 0 {
		base.Debounce = s.Debounce
	}
	if s.Cap != 0 {
		base.Cap = s.Cap
	}
	if s.Drop != "" {
		base.Drop = s.Drop
	}
	return base
}

// maxWords is how many words ParseQueueSettings reads: several times as many as there can be, so that
// it names the wrong ones.
const maxWords = 20

// ParseQueueSettings reads the arguments of /queue: an optional mode, then debounce:DURATION,
// cap:NUMBER and drop:POLICY in any order. The error wraps ErrInvalid and names every wrong word.
func ParseQueueSettings(words string) (s QueueSettings, err error) {
	var errs []error
	seen := map[string]bool{}
	for i, word := range strings.Fields(words) {
		if len(errs) == maxWords {
			errs = append(errs, fmt.Errorf("%w settings: there are more than %d words", ErrInvalid, maxWords))
			break
		}
		name, value, pair := strings.Cut(word, ":")
		if !pair {
			name = "mode"
		}
		if seen[name] {
			errs = append(errs, fmt.Errorf("%w word %.100q: %s is said twice", ErrInvalid, word, name))
			continue
		}
		seen[name] = true
		switch {
		case name == "mode" && !pair && i == 0:
			s.Mode, err = ParseMode(word)
		case name == "debounce":
			s.Debounce, err = parseDebounce(value)
		case name == "cap":
			s.Cap, err = parseCap(value)
		case name == "drop" && value != "":
			s.Drop, err = ParseDropPolicy(value)
		default:
			delete(seen, name)
			err = fmt.Errorf("%w word %.100q: say a mode first, then debounce:0.5s, cap:25 or drop:summarize", ErrInvalid, word)
		}
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return QueueSettings{}, err
	}
	if s == (QueueSettings{}) {
		return s, fmt.Errorf("%w settings: nothing is said", ErrInvalid)
	}
	return s, nil
}

func parseDebounce(value string) (Millis, error) {
	d, err := time.ParseDuration(value)
	if err != nil || d < time.Millisecond || d > MaxDebounce {
		return 0, fmt.Errorf("%w debounce %.100q: write a duration up to %s, as 0.5s", ErrInvalid, value, MaxDebounce)
	}
	return Millis(d.Truncate(time.Millisecond)), nil
}

func parseCap(value string) (int, error) {
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 || n > MaxQueueCap {
		return 0, fmt.Errorf("%w cap %.100q: write a number from 1 to %d", ErrInvalid, value, MaxQueueCap)
	}
	return n, nil
}

// String returns the settings as arguments of /queue.
func (s QueueSettings) String() string {
	var words []string
	if s.Mode != "" {
		words = append(words, string(s.Mode))
	}
	if s.Debounce != 0 {
		words = append(words, "debounce:"+time.Duration(s.Debounce).String())
	}
	if s.Cap != 0 {
		words = append(words, "cap:"+strconv.Itoa(s.Cap))
	}
	if s.Drop != "" {
		words = append(words, "drop:"+string(s.Drop))
	}
	return strings.Join(words, " ")
}
