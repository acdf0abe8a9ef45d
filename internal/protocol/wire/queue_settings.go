package wire

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"turnstile/pkg/session"
)

// ParseMode reads a mode. "" is the empty mode. The error wraps ErrInvalid.
func ParseMode(s string) (session.Mode, error) {
	switch m := session.Mode(s); m {
	case "", session.ModeQueue, session.ModeCollect, session.ModeSteer, session.ModeInterrupt, session.ModeRollback, session.ModeReject:
		return m, nil
	}
	return "", fmt.Errorf("%w mode %.100q: use %s, %s, %s, %s, %s or %s", session.ErrInvalid, s,
		session.ModeQueue, session.ModeCollect, session.ModeSteer, session.ModeInterrupt, session.ModeRollback, session.ModeReject)
}

// ParseDropPolicy reads a drop policy. "" is the empty policy. The error wraps ErrInvalid.
func ParseDropPolicy(s string) (session.DropPolicy, error) {
	switch d := session.DropPolicy(s); d {
	case "", session.DropNew, session.DropOld, session.DropSummarize:
		return d, nil
	}
	return "", fmt.Errorf("%w drop policy %.100q: use %s, %s or %s", session.ErrInvalid, s, session.DropNew, session.DropOld, session.DropSummarize)
}

// The highest values of QueueSettings.
const (
	MaxDebounce = time.Hour
	MaxQueueCap = 10_000
)

// DefaultQueueSettings returns the defaults of a worker: ModeQueue, a debounce of 1 s, a cap of
// 100, DropNew.
func DefaultQueueSettings() session.QueueSettings {
	return session.QueueSettings{Mode: session.ModeQueue, Debounce: session.Millis(time.Second), Cap: 100, Drop: session.DropNew}
}

// Over returns s with base's values in place of its zero fields.
func Over(s, base session.QueueSettings) session.QueueSettings {
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

// maxWords is how many words ParseQueueSettings reads: several times as many as are valid, so that
// the error can name the wrong ones.
const maxWords = 20

// ParseQueueSettings reads the arguments of /queue: an optional mode, then debounce:DURATION,
// cap:NUMBER and drop:POLICY in any order. The error wraps ErrInvalid and names every wrong word.
func ParseQueueSettings(words string) (s session.QueueSettings, err error) {
	var errs []error
	seen := map[string]bool{}
	for i, word := range strings.Fields(words) {
		if len(errs) == maxWords {
			errs = append(errs, fmt.Errorf("%w settings: there are more than %d words", session.ErrInvalid, maxWords))
			break
		}
		name, value, pair := strings.Cut(word, ":")
		if !pair {
			name = "mode"
		}
		if seen[name] {
			errs = append(errs, fmt.Errorf("%w word %.100q: %s is given twice", session.ErrInvalid, word, name))
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
			err = fmt.Errorf("%w word %.100q: write a mode first, then debounce:0.5s, cap:25 or drop:summarize", session.ErrInvalid, word)
		}
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return session.QueueSettings{}, err
	}
	if s == (session.QueueSettings{}) {
		return s, fmt.Errorf("%w settings: they are empty", session.ErrInvalid)
	}
	return s, nil
}

func parseDebounce(value string) (session.Millis, error) {
	d, err := time.ParseDuration(value)
	if err != nil || d < time.Millisecond || d > MaxDebounce {
		return 0, fmt.Errorf("%w debounce %.100q: write a duration up to %s, as 0.5s", session.ErrInvalid, value, MaxDebounce)
	}
	return session.Millis(d.Truncate(time.Millisecond)), nil
}

func parseCap(value string) (int, error) {
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 || n > MaxQueueCap {
		return 0, fmt.Errorf("%w cap %.100q: write a number from 1 to %d", session.ErrInvalid, value, MaxQueueCap)
	}
	return n, nil
}
