package openai

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"turnstile/test/expect"
)

// Each field of a request counts if it is the only one that asks for something, and its response repeats it.
func TestEachFieldAlone(t *testing.T) {
	t.Parallel()
	values := map[string]string{
		"tools": `[{"type":"function","name":"f","function":{"name":"f"}}]`, "tool_choice": `"required"`, "response_format": `{"type":"json_object"}`,
		"text": `{"format":{"type":"json_object"}}`, "parallel_tool_calls": "true",
	}
	kinds := map[reflect.Kind]string{reflect.String: `"x"`, reflect.Pointer: "0.5", reflect.Int: "7", reflect.Slice: `["x"]`}
	fields := reflect.TypeFor[asked]()
	for i := range fields.NumField() {
		f := fields.Field(i)
		name := f.Tag.Get("json")
		value, ok := values[name]
		if !ok {
			value = kinds[f.Type.Kind()]
		}
		for _, body := range []string{`{%q:%s}`, `{"model":"m","input":"x",%q:%s}`, "{\n\t%q : %s\n}"} {
			body = fmt.Sprintf(body, name, value)
			var all asked
			expect.OK(t, json.Unmarshal([]byte(body), &all))
			if reflect.ValueOf(all).Field(i).IsZero() {
				t.Errorf("%s: give it a value", body)
			}
			q, err := parseAsked([]byte(body))
			expect.OK(t, err)
			if reflect.ValueOf(q).IsZero() {
				t.Errorf("%s asks for nothing", body)
			}
			var before, after response
			request{}.echo(&before)
			request(q).echo(&after)
			if name != "stop" && reflect.DeepEqual(before, after) { // a response has no stop
				t.Errorf("%s: the response does not repeat it", body)
			}
		}
	}
	q, err := parseAsked([]byte(`{"model":"m","input":"` + strings.Repeat("x", 100) + `"}`))
	if expect.OK(t, err); !reflect.ValueOf(q).IsZero() {
		t.Errorf("a request without them asks for %+v", q)
	}
}
