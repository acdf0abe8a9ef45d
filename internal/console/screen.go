package console

import (
	"io"
	"strings"
	"sync"
)

const (
	promptText = "> "
	eraseLine  = "\r\x1b[K"
)

// Screen is a terminal that several write to: replies piece by piece, notes and
// the log by the line. It keeps them apart, and puts the prompt back behind them.
type Screen struct {
	out   io.Writer
	style Style

	mu       sync.Mutex
	prompted bool // the prompt is the last thing on the screen
	midLine  bool // a piece of text is
	closed   bool // nothing is asked for any more
}

// NewScreen writes to out.
func NewScreen(out io.Writer, style Style) *Screen { return &Screen{out: out, style: style} }

// Line writes a line, or several, between whatever else there is.
func (s *Screen) Line(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.line(text)
}

func (s *Screen) line(text string) {
	prompted := s.prompted
	s.clear()
	s.write(strings.TrimRight(text, "\n") + "\n")
	if prompted {
		s.prompt()
	}
}

// Write implements io.Writer, for a log.
func (s *Screen) Write(p []byte) (int, error) {
	s.Line(string(p))
	return len(p), nil
}

// Text writes a piece of a longer text.
func (s *Screen) Text(piece string) {
	if piece == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.prompted {
		s.clear()
	}
	s.write(piece)
	s.midLine = !strings.HasSuffix(piece, "\n")
}

// EndText ends the longer text.
func (s *Screen) EndText() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.midLine {
		s.clear()
	}
}

// Prompt asks for a line.
func (s *Screen) Prompt() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.prompted && !s.closed {
		s.clear()
		s.prompt()
	}
}

// Close takes the prompt away for good. What is written is still shown.
func (s *Screen) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed = true; s.prompted {
		s.clear()
	}
}

// Typed says that the user has entered a line: the cursor is on the next.
func (s *Screen) Typed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.prompted, s.midLine = false, false
}

func (s *Screen) prompt() {
	s.write(s.style.Strong(promptText))
	s.prompted = true
}

// clear takes the cursor to an empty line.
func (s *Screen) clear() {
	switch {
	case s.prompted:
		s.write(eraseLine)
	case s.midLine:
		s.write("\n")
	}
	s.prompted, s.midLine = false, false
}

// write is best effort: a terminal that is gone is no reason to end.
func (s *Screen) write(text string) { _, _ = io.WriteString(s.out, text) }
