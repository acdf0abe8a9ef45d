package printable

import (
	"io"
	"sync"
	"unicode/utf8"
)

// Writer makes text printable on its way to another writer. The bytes of one character may come
// in several writes; the character is written with the last of them.
type Writer struct {
	w  io.Writer
	as func(string) string

	mu   sync.Mutex
	rest []byte // the first bytes of an unfinished character
}

// NewWriter returns a Writer that applies Text.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w, as: Text} }

// NewJSONWriter returns a Writer that applies JSON.
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

// begun returns how many bytes at the end of text may begin an unfinished character.
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
