package strictjson_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"turnstile/internal/protocol/wire"
	"turnstile/internal/text/strictjson"
	"turnstile/pkg/session"
	"turnstile/test/expect"
)

// document is a value with fields of every kind.
type document struct {
	wire.Message
	List  []struct{ Name string } `json:"list"`
	Raw   json.RawMessage         `json:"raw"`
	Wait  wire.Duration           `json:"wait"`
	Inner *struct {
		A int `json:"a"`
	} `json:"inner"`
}

// Decode accepts only JSON that encoding/json accepts, and reads the same. DecodeNamed accepts only
// JSON that Decode accepts, and names the fields that it refuses.
func FuzzDecode(f *testing.F) {
	for _, text := range []string{
		`{"text":"a","meta":{"k":"v"},"list":[{"Name":"x"}],"raw":[1],"wait":"1d","inner":{"a":1}}`, `{"TEXT":"a"}`, `{"text":"a","text":"b"}`,
		`{"x":1,"list":[{"name":1},{"y":2}],"inner":{"b":{"c":1}}}`, `{} {}`, `null`, `[]`, `{"wait":"soon"}`, `{"a.b\n\u202e":1}`,
	} {
		f.Add([]byte(text))
	}
	f.Add([]byte(`{"` + strings.Repeat(`x":1,"`, 2000) + `text":""}`))
	f.Add([]byte(`{"` + strings.Repeat(`long`, 2000) + `":1}`))
	f.Add([]byte(`{"x` + strings.Repeat(` `, 600) + `":1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var plain, strict, named document
		plainErr := json.Unmarshal(data, &plain)
		err := strictjson.Decode(data, &strict)
		if err == nil && (plainErr != nil || !reflect.DeepEqual(strict, plain)) {
			t.Errorf("%q is %+v, and %+v, %v for encoding/json", data, strict, plain, plainErr)
		}
		namedErr := strictjson.DecodeNamed(data, &named)
		if namedErr == nil && (err != nil || !reflect.DeepEqual(named, strict)) {
			t.Errorf("%q is %+v, and %+v, %v with its fields named", data, strict, named, err)
		}
		for _, err := range []error{err, namedErr} {
			if err == nil {
				continue
			}
			if !errors.Is(err, session.ErrInvalid) {
				t.Errorf("%v does not wrap ErrInvalid", err)
			}
			expect.Line(t, "the error", err.Error(), expect.ErrorMost)
		}
		var unknown *strictjson.UnknownFieldsError
		if errors.As(namedErr, &unknown) && (len(unknown.Names) == 0 || plainErr != nil && !json.Valid(data)) {
			t.Errorf("%q has unknown fields: %q", data, unknown.Names)
		}
	})
}
