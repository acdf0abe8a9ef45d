package explore

import (
	"testing"
	"time"
)

// Of a distant TTL, a state only has whether there is one, and whether it is short.
func TestDistantTTLs(t *testing.T) {
	t.Parallel()
	form := func(ttl time.Duration) string {
		v := &value{key: "turnstile:{session:s}:transcript:a", kind: "list", text: []string{"x"}}
		if ttl > 0 {
			v.expires = epoch*1000 + ttl.Milliseconds()
		}
		return string(v.canonical().skeleton[:])
	}
	const day = 24 * time.Hour
	if form(0) == form(30*day) || form(0) == form(day) || form(day) == form(30*day) {
		t.Error("a state is the same without a TTL, with a short and with a long one")
	}
	if form(29*day) != form(30*day) || form(day) != form(2*day) {
		t.Error("each step of the clock makes a new state")
	}
}
