package boundedjson_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"turnstile/internal/text/boundedjson"
)

type inner struct {
	A    string
	List []inner `json:"list"`
	Raw  json.RawMessage
	At   time.Time
}

type outer struct {
	*inner
	Meta  map[string]string `json:"meta"`
	Any   any               `json:"any"`
	Own   own               `json:"own"`
	Named string            `json:"named"`
}

// own reads itself.
type own struct{ of []any }

func (o *own) UnmarshalJSON(data []byte) error { return json.Unmarshal(data, &o.of) }

func list(element string) string {
	return "[" + strings.TrimSuffix(strings.Repeat(element+",", 1<<20/(len(element)+1)), ",") + "]"
}

// Decoding a list stops at the bound, for every type and every case of its name.
func TestTooMany(t *testing.T) {
	t.Parallel()
	for text, refused := range map[string]bool{
		`{"list":` + list(`{}`) + `}`:                                  true,
		`{"LIST":` + list(`{}`) + `}`:                                  true,
		`{"liſt":` + list(`{}`) + `}`:                                  true, // json.Unmarshal reads it as list
		`{"list":[{"list":` + list(`0`) + `}]}`:                        true,
		`{"any":` + list(`0`) + `}`:                                    true,
		`{"any":{"a":` + list(`[]`) + `}}`:                             true,
		`{"own":` + list(`0`) + `}`:                                    true,
		`{"meta":{` + list(`"a":""`)[1:1000] + `"`:                     false, // it is no JSON
		`{"meta":{"a":"` + list(`0`) + `"}}`:                           false,
		`{"Raw":` + list(`0`) + `}`:                                    false,
		`{"unknown":` + list(`0`) + `}`:                                false,
		`{"meta":` + list(`0`) + `}`:                                   true, // of another kind
		`{"At":` + list(`0`) + `}`:                                     true, // it reads itself
		`{"list":` + list(`{"A":"`+strings.Repeat("x", 60)+`"}`) + `}`: false,
		list(`0`): true,
		``:        false,
	} {
		var into outer
		if err := boundedjson.Unmarshal([]byte(text), &into); errors.Is(err, boundedjson.ErrTooMany) != refused {
			t.Errorf("%.60s: %v", text, err)
		}
	}
	members := `{"meta":{` + strings.TrimSuffix(strings.ReplaceAll(list(`"a":""`)[1:], "]", ""), ",") + `}}`
	if err := boundedjson.Unmarshal([]byte(members), new(outer)); !errors.Is(err, boundedjson.ErrTooMany) {
		t.Errorf("an object with many members: %v", err)
	}
}

// Refused documents cost no more memory than their text.
func TestTooManyCostsNothing(t *testing.T) { //nolint:paralleltest // it counts what the process allocates
	data := []byte(`{"list":` + list(`{}`) + `}`)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := boundedjson.Unmarshal(data, new(outer)); !errors.Is(err, boundedjson.ErrTooMany) {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if made := after.TotalAlloc - before.TotalAlloc; made > 4<<20 {
		t.Errorf("%d bytes were allocated for a document of %d", made, len(data))
	}
}

// Unmarshal reads the same as json.Unmarshal.
func FuzzUnmarshal(f *testing.F) {
	for _, text := range []string{`{"a":"b","list":[{"Raw":[1]}],"any":{"a":[1,null]}}`, `[]`, `{"own":[1,{}]}`, `{"list":[],"list":{}}`, `{`, `{"any":[[[[]]]]}`} {
		f.Add([]byte(text), true)
	}
	f.Fuzz(func(t *testing.T, data []byte, commas bool) {
		if commas { // so many that the elements are counted
			data = append([]byte(`{"unknown":[`+strings.Repeat("0,", 6000)+`0],"any":`), append(data, '}')...)
		}
		var plain, bounded outer
		plainErr := json.Unmarshal(data, &plain)
		err := boundedjson.Unmarshal(data, &bounded)
		if errors.Is(err, boundedjson.ErrTooMany) {
			return
		}
		if (err == nil) != (plainErr == nil) || !reflect.DeepEqual(plain, bounded) {
			t.Errorf("%.200q: %v and %v", data, err, plainErr)
		}
	})
}
