package strictjson_test

import (
	"errors"
	"testing"

	"turnstile/internal/text/strictjson"
	"turnstile/pkg/session"
)

func TestDecode(t *testing.T) {
	t.Parallel()
	var into struct{ A int }
	if err := strictjson.Decode([]byte(`{"a":1}`), &into); err != nil || into.A != 1 {
		t.Errorf("%+v, %v", into, err)
	}
	for _, bad := range []string{`{"a":1,"b":2}`, `{"a":1} {"a":2}`, `{"a":1}x`, ``} {
		if err := strictjson.Decode([]byte(bad), &into); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
