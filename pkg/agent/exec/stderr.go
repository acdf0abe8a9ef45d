package exec

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"strings"
	"unicode/utf8"
)

// stderrKept is how much of a command's stderr is kept for the error message.
const stderrKept = 4 << 10

// stderrTail logs a command's stderr by the line and keeps its end.
type stderrTail struct {
	logger *slog.Logger
	line   []byte
	tail   []byte
}

func (s *stderrTail) copyFrom(r io.Reader) {
	buf := make([]byte, stderrKept)
	for {
		n, err := r.Read(buf)
		s.write(buf[:n])
		if err != nil {
			s.flush()
			return
		}
	}
}

func (s *stderrTail) write(p []byte) {
	s.tail = append(s.tail, p...)
	if over := len(s.tail) - stderrKept; over > 0 {
		s.tail = append(s.tail[:0], s.tail[over:]...)
	}
	for len(p) > 0 {
		head, rest, found := bytes.Cut(p, []byte{'\n'})
		s.line = append(s.line, head...)
		p = rest
		if found || len(s.line) >= stderrKept {
			s.flush()
		}
	}
}

func (s *stderrTail) flush() {
	if text := bytes.TrimRight(s.line, "\r"); len(text) > 0 && s.logger.Enabled(context.Background(), slog.LevelDebug) {
		s.logger.Debug("agent's stderr", "line", strings.ToValidUTF8(string(text), "\uFFFD"))
	}
	s.line = s.line[:0]
}

// last is the last line that is not blank, at most stderrKept bytes of it.
func (s *stderrTail) last() string {
	text := strings.TrimSpace(string(s.tail))
	if i := strings.LastIndexAny(text, "\r\n"); i >= 0 {
		text = text[i+1:]
	}
	for i := 0; i < utf8.UTFMax && text != "" && !utf8.RuneStart(text[0]); i++ {
		text = text[1:] // the line's beginning was cut off in a character
	}
	return strings.TrimSpace(strings.ToValidUTF8(text, "\uFFFD"))
}
