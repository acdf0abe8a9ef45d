package printable

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                "",
		"a \tb\n\n é 🧑‍🚀 שלום\n.":         "a \tb\n\n é 🧑‍🚀 שלום\n.",
		"a\r\nb\rc":                       "a\nbc",
		"\x1b[31mred\x1b[0m":              "\uFFFD[31mred\uFFFD[0m",
		"\x1b]0;title\x07":                "\uFFFD]0;title\uFFFD",
		"a\x00b\x08\x7f":                  "a\uFFFDb\uFFFD\uFFFD",
		"\u009b2J\u0085":                  "\uFFFD2J\uFFFD",
		"\x9b2J\xff":                      "\uFFFD2J\uFFFD",
		"a\u202eb\u2066c\u2069\u200fd":    "abcd",
		"\u061ca\u200e\u202a\u202d\u202c": "a",
		"a\u2028b\u2029c":                 "a\nb\nc",
	} {
		if got := Text(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestLine(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		" a  b ":            "a  b",
		"a\nb\tc\r\nd":      "a b c d",
		"a\u2028b\u2029c":   "a b c",
		"a\x1b[2K\u202eb":   "a\uFFFD[2Kb",
		"\n\u2028":          "",
		"a\vb\fc\u0085d":    "a\uFFFDb\uFFFDc\uFFFDd",
		"worker\nworker: b": "worker worker: b",
	} {
		if got := Line(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// JSON's output is printable and parses to the same value.
func TestJSON(t *testing.T) {
	t.Parallel()
	const said = "a\x1b\x7f\u009b\u202e\u2066\u2028\u061c é\n\t\r\\u202e"
	raw, err := json.Marshal(map[string]string{said: said})
	if err != nil {
		t.Fatal(err)
	}
	text := JSON(string(raw) + "\n")
	for _, r := range text {
		if r != '\n' && clean(r) != r {
			t.Errorf("%U in %q", r, text)
		}
	}
	var got map[string]string
	if err := json.Unmarshal([]byte(text), &got); err != nil || got[said] != said {
		t.Errorf("%q: %v, %v", text, got, err)
	}
	for text, want := range map[string]string{`{"a":"é"}`: `{"a":"é"}`, "no JSON \x1b[2J\xff\u202e": `no JSON \u001b[2J\ufffd\u202e`} {
		if got := JSON(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// The output does not depend on how the input is split into writes.
func TestWriter(t *testing.T) {
	t.Parallel()
	const text = "a\x1b[2J é\u202e🧑‍🚀\x9b\xf0\x9f\x1b\u2028b\xe2\x80\n"
	for name, c := range map[string]struct {
		make func(*strings.Builder) *Writer
		want string
	}{
		"Text": {func(b *strings.Builder) *Writer { return NewWriter(b) }, Text(text)},
		"JSON": {func(b *strings.Builder) *Writer { return NewJSONWriter(b) }, JSON(text)},
	} {
		for size := 1; size <= len(text); size++ {
			var b strings.Builder
			w := c.make(&b)
			for rest := text; rest != ""; {
				n := min(size, len(rest))
				if written, err := w.Write([]byte(rest[:n])); written != n || err != nil {
					t.Fatalf("%d, %v", written, err)
				}
				rest = rest[n:]
			}
			if b.String() != c.want {
				t.Errorf("%s, %d bytes at a time: %q, want %q", name, size, b.String(), c.want)
			}
		}
	}
	if _, err := NewWriter(broken{}).Write([]byte("a")); !errors.Is(err, errBroken) {
		t.Error(err)
	}
}

var errBroken = errors.New("broken")

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errBroken }

func FuzzPrintable(f *testing.F) {
	f.Add("a\x1b[2J\u202e\xff\r\n\u2028")
	f.Fuzz(func(t *testing.T, text string) {
		for name, got := range map[string]string{"Text": Text(text), "Line": Line(text), "JSON": JSON(text)} {
			if !utf8.ValidString(got) {
				t.Errorf("%s: %q is not UTF-8", name, got)
			}
			for _, r := range got {
				blank := name == "Text" && (r == '\n' || r == '\t') || name == "JSON" && (r == '\n' || r == '\t' || r == '\r')
				if !blank && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == lineSeparator || r == paragraphSeparator) {
					t.Errorf("%s: %U in %q", name, r, got)
				}
			}
		}
		if once := Text(text); Text(once) != once {
			t.Errorf("%q becomes %q, and then %q", text, once, Text(once))
		}
	})
}
