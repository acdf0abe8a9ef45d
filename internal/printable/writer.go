package printable

import (
	"io"
	"sync"
	"unicode/utf8"
)

// Writer makes printable what is written to another writer. A character may come in
// several writes: it is written with the last.
type Writer struct {
	w  io.Writer
	as func(string) string

	mu   sync.Mutex
	rest []byte // the beginning of a character
}

// NewWriter passes on as Text does.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w, as: Text} }

// NewJSONWriter passes on as JSON does.
func NewJSONWriter(w io.Writer) *Writer { return &Writer{w: w, as: JSON} }

// Write implements io.Writer.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := append(w.rest, p...)
	whole := len(text) - begun(text)
	w.rest = append([]byte(nil), text[whole:]...)
	if whole == 0 {
		return len(p), nil
	}
	if _, err := io.WriteString(w.w, w.as(string(text[:whole]))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// begun is how many bytes at the end of a text may be the beginning of a character.
func begun(text []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if at := text[len(text)-n:]; utf8.RuneStart(at[0]) {
			if utf8.FullRune(at) {
				return 0
			}
			return n
		}
	}
	return 0
}
