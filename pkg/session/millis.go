package session

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"
)

// Millis is a time.Duration that is a number of milliseconds in JSON. The types here use it instead
// of JSON methods, so that a program may embed an Event in another type.
type Millis time.Duration

// String returns it as a time.Duration.
func (d Millis) String() string { return time.Duration(d).String() }

// MarshalJSON implements json.Marshaler.
func (d Millis) MarshalJSON() ([]byte, error) {
	return strconv.AppendInt(nil, time.Duration(d).Milliseconds(), 10), nil
}

// UnmarshalJSON implements json.Unmarshaler. A number that does not fit becomes the nearest one.
func (d *Millis) UnmarshalJSON(data []byte) error {
	var ms float64
	if err := json.Unmarshal(data, &ms); err != nil {
		return fmt.Errorf("milliseconds: %w", err)
	}
	const most = float64(math.MaxInt64 - 1<<10) // a float64 that fits
	*d = Millis(min(max(ms*float64(time.Millisecond), -most), most))
	return nil
}

// Time is a time.Time that is a number of milliseconds since 1970 in JSON. The zero Time is 0.
type Time struct{ time.Time }

// MarshalJSON implements json.Marshaler.
func (t Time) MarshalJSON() ([]byte, error) {
	if t.IsZero() {
		return []byte{'0'}, nil
	}
	return strconv.AppendInt(nil, t.UnixMilli(), 10), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (t *Time) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil // as for every other type
	}
	ms, err := strconv.ParseInt(string(data), 10, 64)
	if err != nil {
		return fmt.Errorf("a time in ms: %w", err)
	}
	if *t = (Time{}); ms != 0 {
		t.Time = time.UnixMilli(ms)
	}
	return nil
}
