package slash

import "testing"

func TestMistyped(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]bool{
		"session": true, "sesion": true, "sessions": true, "sezsion": true, "ession": true, "esssion": true, "sessino": true, "esssio": false,
		"sseion": false, "sessöon": true, "": false, "text": false, "sesions": false,
	} {
		if got := Mistyped(word, "session"); got != want {
			t.Errorf("%q: %v", word, got)
		}
	}
	for word, want := range map[string]bool{"nwe": true, "enw": true, "new": false, "now": false, "ne": false, "wen": false} {
		if got := swapped(word, "new"); got != want {
			t.Errorf("%q: %v", word, got)
		}
	}
}
