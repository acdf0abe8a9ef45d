package command

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// stderrKept is how many bytes of a command's stderr are kept for the error message.
const stderrKept = 4 << 10

// lastLines is how many of its lines the error message has.
const lastLines = 3

// stderrTail logs a command's stderr line by line and keeps its end.
type stderrTail struct {
	logger *slog.Logger
	line   []byte

	mu   sync.Mutex
	tail []byte
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
	s.addToTail(p)
	for len(p) > 0 {
		head, rest, found := bytes.Cut(p, []byte{'\n'})
		s.line = append(s.line, head...)
		p = rest
		if found || len(s.line) >= stderrKept {
			s.flush()
		}
	}
}

func (s *stderrTail) addToTail(p []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tail = append(s.tail, p...)
	if over := len(s.tail) - stderrKept; over > 0 {
		s.tail = append(s.tail[:0], s.tail[over:]...)
	}
}

func (s *stderrTail) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tail = s.tail[:0]
}

func (s *stderrTail) flush() {
	if text := bytes.TrimRight(s.line, "\r"); len(text) > 0 && s.logger.Enabled(context.Background(), slog.LevelDebug) {
		s.logger.Debug("agent's stderr", "line", strings.ToValidUTF8(string(text), "\uFFFD"))
	}
	s.line = s.line[:0]
}

// last returns the last lines that are not blank, at most lastLines.
func (s *stderrTail) last() string {
	var lines []string
	for _, line := range slices.Backward(strings.FieldsFunc(Uncolored(s.all()), func(r rune) bool { return r == '\n' || r == '\r' })) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
		if len(lines) == lastLines {
			break
		}
	}
	slices.Reverse(lines)
	return strings.Join(lines, "\n")
}

// colors matches each ESC, also one without the rest of a code, so that no remainder becomes a
// code.
var colors = regexp.MustCompile("\x1b(\\[[0-9;]*[A-Za-z]?)?")

// Uncolored removes the color codes of a terminal.
func Uncolored(text string) string { return colors.ReplaceAllString(text, "") }

// all returns the kept bytes.
func (s *stderrTail) all() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.ToValidUTF8(strings.TrimSpace(wholeStart(s.tail)), "\uFFFD")
}

// wholeStart removes a truncated character at the beginning.
func wholeStart(tail []byte) string {
	for i := 0; i < utf8.UTFMax && len(tail) > 0 && !utf8.RuneStart(tail[0]); i++ {
		tail = tail[1:]
	}
	return string(tail)
}
