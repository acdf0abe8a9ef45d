package command

import (
	"encoding/json"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"turnstile/test/expect"
)

func TestCutter(t *testing.T) {
	t.Parallel()
	const most = MaxLine
	x := func(n int) string { return strings.Repeat("x", n) }
	for name, c := range map[string]struct {
		value map[string]string
		whole bool
	}{
		"short":      {map[string]string{"a": "b"}, true},
		"long":       {map[string]string{"a": x(7 << 20)}, true},
		"one":        {map[string]string{"a": x(9 << 20), "z": "completed"}, false},
		"two":        {map[string]string{"a": x(6 << 20), "b": x(6 << 20), "z": "completed"}, false},
		"escapes":    {map[string]string{"a": strings.Repeat("\n\"\\\x01", most/5), "z": "completed"}, false},
		"characters": {map[string]string{"a": strings.Repeat("😀é", most/3), "z": "completed"}, false},
		"a key":      {map[string]string{"a": "b", x(9 << 20): "c"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			line, err := json.Marshal(c.value)
			expect.OK(t, err)
			text := string(line) + "\n"
			got, err := io.ReadAll(NewCutter(iotest.HalfReader(strings.NewReader(text + text + `{"last":1}`))))
			expect.OK(t, err)
			lines := strings.Split(string(got), "\n")
			expect.Equal(t, "lines", len(lines), 3)
			expect.Equal(t, "the last", lines[2], `{"last":1}`)
			expect.Equal(t, "the second is cut like the first", lines[0] == lines[1], true)
			expect.Equal(t, "whole", lines[0]+"\n" == text, c.whole)
			var back map[string]string
			expect.OK(t, json.Unmarshal([]byte(lines[0]), &back))
			expect.Equal(t, "short values", back["z"], c.value["z"])
			expect.Equal(t, "marked", strings.Contains(lines[0], cutMark), !c.whole)
			if len(lines[0]) > most || !c.whole && len(lines[0]) < 7<<20 {
				t.Errorf("%d bytes", len(lines[0]))
			}
			for key, value := range back {
				if whole, cut, _ := strings.Cut(value, cutMark); cut != "" || !strings.HasPrefix(c.value[key], whole) && len(key) < 10 {
					t.Errorf("%q is no beginning", value[:100])
				}
			}
		})
	}
}

// What is no JSON is cut, too. A line without end is an error.
func TestCutterOfOtherLines(t *testing.T) {
	t.Parallel()
	got, err := io.ReadAll(NewCutter(strings.NewReader(strings.Repeat("x", 9<<20) + "\nnext\n")))
	expect.OK(t, err)
	expect.Equal(t, "the lines", string(got), strings.Repeat("x", MaxLine-1)+"\nnext\n")
	_, err = io.Copy(io.Discard, NewCutter(endless{}))
	expect.Equal(t, "the error", err.Error(), "it wrote a line longer than 64 MiB")
}

type endless struct{}

func (endless) Read(to []byte) (int, error) {
	return copy(to, "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"), nil
}
