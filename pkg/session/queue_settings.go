package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// DropPolicy says what goes when a message comes to a line that is full.
type DropPolicy string

// The drop policies.
const (
	DropNew       DropPolicy = "new"       // the message that comes is refused
	DropOld       DropPolicy = "old"       // the oldest that waits is archived
	DropSummarize DropPolicy = "summarize" // the same, and the next turn's note has a line of it
)

// ParseDropPolicy reads a drop policy; the empty string is legal and stays empty. The
// error wraps ErrInvalid.
func ParseDropPolicy(s string) (DropPolicy, error) {
	switch d := DropPolicy(s); d {
	case "", DropNew, DropOld, DropSummarize:
		return d, nil
	}
	return "", fmt.Errorf("%w drop policy %q: use %s, %s or %s", ErrInvalid, s, DropNew, DropOld, DropSummarize)
}

// Limits of Settings.
const (
	MaxDebounce = time.Hour
	MaxQueueCap = 10_000
)

// QueueSettings say what a message does that finds its session busy. Zero fields mean
// those of the worker.
type QueueSettings struct {
	Mode Mode `json:"mode,omitempty"`

	// Debounce is how long collected messages wait for another one, as JSON in ms.
	Debounce Millis `json:"debounce_ms,omitempty"`

	// Cap is how many messages may wait. As many collected ones wait no longer.
	Cap int `json:"cap,omitempty"`

	Drop DropPolicy `json:"drop,omitempty"`
}

// DefaultQueueSettings hold where nothing is said.
func DefaultQueueSettings() QueueSettings {
	return QueueSettings{Mode: ModeQueue, Debounce: Millis(time.Second), Cap: 100, Drop: DropNew}
}

// Over is s with what it leaves open taken from base.
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

// ParseQueueSettings reads the words behind /queue: a busy mode first, if any, then
// debounce:DURATION, cap:NUMBER and drop:POLICY in any order. Errors wrap
// ErrInvalid and tell of every word that is wrong.
func ParseQueueSettings(words string) (s QueueSettings, err error) {
	var errs []error
	seen := map[string]bool{}
	for i, word := range strings.Fields(words) {
		name, value, pair := strings.Cut(word, ":")
		if !pair {
			name = "mode"
		}
		if seen[name] {
			errs = append(errs, fmt.Errorf("%w word %q: %s is said twice", ErrInvalid, word, name))
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
			err = fmt.Errorf("%w word %q: say a mode first, then debounce:0.5s, cap:25 or drop:summarize", ErrInvalid, word)
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
		return 0, fmt.Errorf("%w debounce %q: write a duration up to %s, as 0.5s", ErrInvalid, value, MaxDebounce)
	}
	return Millis(d), nil
}

func parseCap(value string) (int, error) {
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 || n > MaxQueueCap {
		return 0, fmt.Errorf("%w cap %q: write a number from 1 to %d", ErrInvalid, value, MaxQueueCap)
	}
	return n, nil
}

// String is how /queue would say it.
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

// Millis is a time.Duration that is a number of milliseconds in JSON, which is
// what the scripts calculate with.
type Millis time.Duration

// MarshalJSON implements json.Marshaler.
func (d Millis) MarshalJSON() ([]byte, error) {
	return strconv.AppendInt(nil, time.Duration(d).Milliseconds(), 10), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (d *Millis) UnmarshalJSON(data []byte) error {
	var ms float64
	if err := json.Unmarshal(data, &ms); err != nil {
		return fmt.Errorf("milliseconds: %w", err)
	}
	*d = Millis(ms * float64(time.Millisecond))
	return nil
}
