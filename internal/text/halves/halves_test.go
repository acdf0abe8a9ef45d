package halves

import (
	"encoding/json"
	"testing"
)

func TestJoin(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		pieces []string
		want   string
	}{
		"whole":                       {[]string{`"a"`, `""`, `"\ud83d\ude00"`, `"😀"`}, "a😀😀"},
		"halves":                      {[]string{`"a\ud83d"`, `"\ude00 hi"`}, "a😀 hi"},
		"with nothing between":        {[]string{`"\ud83d"`, `""`, `"\uDE00"`}, "😀"},
		"several":                     {[]string{`"\ud83d"`, `"\ude00\ud83d"`, `"\ude01"`}, "😀😁"},
		"the first without the other": {[]string{`"a\ud83d"`, `"b"`}, "a\uFFFDb"},
		"the other without the first": {[]string{`"a"`, `"\ude00b"`}, "a\uFFFDb"},
		"two first halves":            {[]string{`"\ud83d"`, `"\ud83d"`, `"\ude00"`}, "\uFFFD😀"},
		"in the middle":               {[]string{`"a\ud83db\ude00c"`}, "a\uFFFDb\uFFFDc"},
		"the escape as text":          {[]string{`"\\ud83d"`, `"\\ude00"`}, `\ud83d\ude00`},
		"after a backslash":           {[]string{`"\\\ud83d"`, `"\ude00"`}, `\😀`},
		"null":                        {[]string{`null`, `"a"`}, "a"},
	} {
		var j Joiner
		got := ""
		for _, data := range c.pieces {
			var p struct{ Text Piece }
			if err := json.Unmarshal([]byte(`{"text":`+data+`}`), &p); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			got += j.Join(p.Text)
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	if err := json.Unmarshal([]byte("7"), new(Piece)); err == nil {
		t.Error("a number is a piece")
	}
}
