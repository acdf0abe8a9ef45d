package wire

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"turnstile/pkg/session"
)

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
	invalid := fmt.Errorf("%w duration %.100q: write it as 500ms, 90s, 10m, 1h30m or 30d", session.ErrInvalid, text)
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
