package strictjson_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"turnstile/internal/protocol/wire"
	"turnstile/internal/text/boundedjson"
	"turnstile/internal/text/strictjson"
	"turnstile/pkg/session"
)

type inner struct {
	Name string `json:"name"`
}

type outer struct {
	inner
	Text string            `json:"text"`
	Raw  json.RawMessage   `json:"raw"`
	Meta map[string]string `json:"meta"`
	List []inner           `json:"list"`
	By   map[string]inner  `json:"by"`
	One  *inner            `json:"one"`
	Dur  wire.Duration     `json:"dur"`
	V    int               `json:"v"`
}

func TestDecodeNamed(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{}`:   "",
		`null`: "",
		` { "text" : "a\"}" , "v" : -1.5e0 , "one" : null } `:          "json: cannot unmarshal",
		`{"name": "n", "one": {"name": "x"}, "list": [{"name": "y"}]}`: "",
		`{"te\u0078t": "a"}`: "",
		`{"raw": {"any": [1, {"x": 2}], "any": 3}, "dur": "1s"}`:     "",
		`{"meta": {"a": "1", "b": "2"}, "by": {"k": {"name": "n"}}}`: "",
		`{"Text": "a"}`: "unknown fields Text",
		`{"b": {"c": [1, "]}"]}, "a": [[], {}], "text": "x"}`:       "unknown fields a, b",
		`{"list": [{"name": "y"}, {"nam": 1}], "one": {"two": {}}}`: "unknown fields list[1].nam, one.two",
		`{"by": {"k": {"x": 1}}}`:                                   "unknown fields by.k.x",
		`{"text": "a", "text": "b"}`:                                `"text" occurs twice`,
		`{"text": "a", "te\u0078t": "b"}`:                           `"text" occurs twice`,
		`{"meta": {"a": "1", "a": "2"}}`:                            `"meta.a" occurs twice`,
		`{"list": [{"name": "y", "name": "z"}]}`:                    `"list[0].name" occurs twice`,
		`{"text": "` + "\xff" + `"}`:                                "not UTF-8",
		`{"text": "a"} {}`:                                          "more than one value",
		`{"text": `:                                                 "unexpected EOF",
		``:                                                          "EOF",
		`[{"text": "a", "x": 1}]`:                                   "cannot unmarshal array",
		`{"text": ["a"]}`:                                           "cannot unmarshal array",
		`{"raw": ` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + `}`: "",
	} {
		var into outer
		err := strictjson.DecodeNamed([]byte(text), &into)
		switch {
		case want == "" && err != nil, want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%.80s: %v, want %q", text, err, want)
		case err != nil && !errors.Is(err, session.ErrInvalid):
			t.Errorf("%.80s: %v", text, err)
		}
	}
}

// An error names a bounded number of fields, and a repeated name is found among many.
func TestManyNames(t *testing.T) {
	t.Parallel()
	var fields []string
	for i := range 9_000 {
		fields = append(fields, fmt.Sprintf(`"f%06d": %d`, i, i))
	}
	var unknown *strictjson.UnknownFieldsError
	err := strictjson.DecodeNamed([]byte("{"+strings.Join(fields, ",")+"}"), &outer{})
	if !errors.As(err, &unknown) || len(unknown.Names) != 20 || !slices.IsSorted(unknown.Names) {
		t.Errorf("%.200v", err)
	}
	err = strictjson.DecodeNamed([]byte(`{"`+strings.Repeat("ä", 1<<20)+`": 1}`), &outer{})
	if !errors.As(err, &unknown) || len(unknown.Names[0]) != 200 {
		t.Errorf("%.300v", err)
	}
	many := "{" + strings.Repeat(`"f": 0,`, 100_000) + `"f": 0}`
	if err := strictjson.DecodeNamed([]byte(many), &outer{}); !errors.Is(err, boundedjson.ErrTooMany) || !errors.Is(err, session.ErrInvalid) {
		t.Errorf("%.200v", err)
	}
	fields[8_000] = fields[3]
	if err := strictjson.DecodeNamed([]byte("{"+strings.Join(fields, ",")+"}"), &outer{}); err == nil || !strings.Contains(err.Error(), `"f000003" occurs twice`) {
		t.Errorf("%.200v", err)
	}
}

// FuzzDecodeNamed compares DecodeNamed with the standard library's decoder. JSON that the library
// refuses is refused, and JSON with only known fields is read alike.
func FuzzDecodeNamed(f *testing.F) {
	f.Add(`{"text": "a", "list": [{"name": "\u00e4"}], "raw": [1, {"x": null}], "v": 1}`)
	f.Add(`{"by": {"a": {"name": ""}}, "one": {"name": "\"{"}}`)
	f.Fuzz(func(t *testing.T, text string) {
		var ours, theirs outer
		err := strictjson.DecodeNamed([]byte(text), &ours)
		if strict := strictjson.Decode([]byte(text), &theirs); strict != nil && err == nil {
			t.Fatalf("%q: %v", text, strict)
		}
		if err == nil && fmt.Sprintf("%+v", ours.Text) != fmt.Sprintf("%+v", theirs.Text) {
			t.Fatalf("%q: %+v, %+v", text, ours, theirs)
		}
	})
}

func BenchmarkDecodeNamed(b *testing.B) {
	text := []byte(`{"text":"hello"}`)
	b.ReportAllocs()
	for b.Loop() {
		if err := strictjson.DecodeNamed(text, &outer{}); err != nil {
			b.Fatal(err)
		}
	}
}
