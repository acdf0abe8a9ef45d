package session_test

import (
	"encoding/json"
	"testing"
	"time"

	"turnstile/pkg/session"
	"turnstile/test/expect"
)

// Times and durations are read as they are written. null leaves a value as it is, as with other types.
func TestMillisecondsInJSON(t *testing.T) {
	t.Parallel()
	type both struct {
		At   session.Time   `json:"at"`
		Took session.Millis `json:"took"`
	}
	at := session.Time{Time: time.UnixMilli(1795227266293)}
	for text, v := range map[string]both{
		`{"at":1795227266293,"took":1500}`: {at, session.Millis(1500 * time.Millisecond)},
		`{"at":0,"took":0}`:                {},
	} {
		data, err := json.Marshal(v)
		expect.OK(t, err)
		expect.Equal(t, "JSON", string(data), text)
		var again both
		expect.OK(t, json.Unmarshal(data, &again))
		expect.Equal(t, text, again, v)
		expect.OK(t, json.Unmarshal([]byte(`{"at":null}`), &again))
		expect.Equal(t, "after null", again, v)
	}
	for _, bad := range []string{`{"at":"now"}`, `{"at":1.5}`, `{"took":"1s"}`} {
		if err := json.Unmarshal([]byte(bad), &both{}); err == nil {
			t.Errorf("%s is read", bad)
		}
	}
}
