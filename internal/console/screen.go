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
// the log by the line. It keeps them apart, and puts the prompt or the status
// back behind them.
type Screen struct {
	out   io.Writer
	style Style

	mu       sync.Mutex
	prompted bool // the prompt is the last thing on the screen
	midLine  bool // a piece of text is
	closed   bool // nothing is asked for any more

	status string // what is to be the last line
	shown  bool   // it is
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
	s.show()
}

// Status keeps one line at the end of the screen, which the next call rewrites in
// place; "" takes it away. It gives way to a prompt, and to a text until its line
// is at an end. What does not fit into the terminal's width is cut off.
func (s *Screen) Status(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if text == s.status {
		return
	}
	s.status = text
	if s.shown {
		s.clear()
	}
	s.show()
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
	if s.prompted || s.shown {
		s.clear()
	}
	s.write(piece)
	s.midLine = !strings.HasSuffix(piece, "\n")
	s.show()
}

// EndText ends the longer text.
func (s *Screen) EndText() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.midLine {
		s.clear()
		s.show()
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
		s.show()
	}
}

// Typed says that the user has entered a line: the cursor is on the next.
func (s *Screen) Typed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.prompted, s.midLine, s.shown = false, false, false
	s.show()
}

func (s *Screen) prompt() {
	s.write(s.style.Strong(promptText))
	s.prompted = true
}

// show writes the status, unless the cursor's line is taken.
func (s *Screen) show() {
	if s.status != "" && !s.prompted && !s.midLine && !s.shown {
		s.write(fitting(s.out, s.status))
		s.shown = true
	}
}

// clear takes the cursor to an empty line.
func (s *Screen) clear() {
	switch {
	case s.prompted, s.shown:
		s.write(eraseLine)
	case s.midLine:
		s.write("\n")
	}
	s.prompted, s.midLine, s.shown = false, false, false
}

// write is best effort: a terminal that is gone is no reason to end.
func (s *Screen) write(text string) { _, _ = io.WriteString(s.out, text) }
