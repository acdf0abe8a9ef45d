package terminal

import (
	"io"
	"os"
	"reflect"
	"strings"
	"sync"

	"turnstile/internal/text/printable"
)

const (
	promptText  = "> "
	thoughtText = "| "
	eraseLine   = "\r\x1b[K"
)

// Screen is a terminal with several writers: replies arrive piece by piece, notes and the log
// line by line. It keeps them on separate lines, and writes the prompt or the status again after
// them. Replies may go to a different place than the rest, and either place may be a file.
//
// All output is made printable, except the screen's own styles.
type Screen struct {
	reply, side io.Writer
	style       Style
	watched     bool // side is a terminal, where a person reads
	live        bool // and its last line can be overwritten
	shared      bool // reply and side are the same place

	// Failed is called if a reply cannot be written. Optional.
	Failed func(error)

	mu       sync.Mutex
	prompted bool // the prompt is the last thing on the screen
	midText  bool // a piece of a reply is
	midAside bool // a piece of a thought is
	closed   bool // no prompt is shown any more

	status string // the last line
	doing  string // the last Doing line
	shown  bool   // one of them is shown
}

// NewScreen makes the Screen of a terminal.
func NewScreen(out io.Writer, style Style) *Screen {
	return &Screen{reply: out, side: out, style: style, watched: true, live: true, shared: true}
}

// NewSplitScreen makes a Screen that writes replies to one place and the rest to another. Each
// may be a terminal or not.
func NewSplitScreen(reply, side io.Writer, environ []string) *Screen {
	return &Screen{
		reply: reply, side: side, style: StyleFor(IsTerminal(side), environ),
		watched: IsTerminal(side), live: IsTerminal(side) && !dumb(environ),
		shared: samePlace(reply, side),
	}
}

// samePlace reports whether output to both ends up in one text.
func samePlace(a, b io.Writer) bool {
	if reflect.TypeOf(a) == reflect.TypeOf(b) && reflect.TypeOf(a).Comparable() && a == b {
		return true
	}
	if IsTerminal(a) && IsTerminal(b) {
		return true
	}
	f, ok1 := a.(*os.File)
	g, ok2 := b.(*os.File)
	if !ok1 || !ok2 {
		return false
	}
	this, err1 := f.Stat()
	that, err2 := g.Stat()
	return err1 == nil && err2 == nil && os.SameFile(this, that)
}

// Line writes one or more lines, apart from all other output.
func (s *Screen) Line(text string) { s.Styled(printable.Text(text)) }

// Styled is Line for text with styles. Its caller must make foreign text in it printable.
func (s *Screen) Styled(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	prompted := s.prompted
	s.clear(s.shared)
	s.write(strings.TrimRight(text, "\n") + "\n")
	if prompted {
		s.prompt()
	}
	s.show()
}

// Tell writes a line in its tone.
func (s *Screen) Tell(l Line) {
	l.Text = printable.Line(l.Text)
	s.Styled(s.style.tone(l))
}

// Status keeps one line at the end of the screen, which the next call overwrites; "" removes it.
// A prompt hides it, and so does an unfinished line of text. It is truncated to the terminal's
// width.
func (s *Screen) Status(text string) { s.last(&s.status, text) }

// Doing is a faint Status that is hidden while another is set. It is not shown where it could not
// be overwritten.
func (s *Screen) Doing(text string) {
	if s.live {
		s.last(&s.doing, text)
	}
}

func (s *Screen) last(line *string, text string) {
	text = printable.Line(text)
	s.mu.Lock()
	defer s.mu.Unlock()
	if text == *line {
		return
	}
	*line = text
	if s.shown {
		s.clear(false)
	}
	s.show()
}

// Write implements io.Writer, for a log.
func (s *Screen) Write(p []byte) (int, error) {
	s.Line(string(p))
	return len(p), nil
}

// Text writes a piece of a reply.
func (s *Screen) Text(piece string) { s.text(printable.Text(piece)) }

// JSON writes JSON to the place of replies and keeps its meaning.
func (s *Screen) JSON(text string) { s.text(printable.JSON(text)) }

func (s *Screen) text(piece string) {
	if piece == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.prompted || s.shown || s.shared && s.midAside {
		s.clear(false)
	}
	s.writeReply(piece)
	s.midText = !strings.HasSuffix(piece, "\n")
	s.show()
}

// Thought writes a piece of the agent's thoughts, with a mark at each line. It is shown only on a
// terminal.
func (s *Screen) Thought(piece string) {
	if !s.watched {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for line := range strings.Lines(printable.Text(piece)) {
		text, ended := strings.CutSuffix(line, "\n")
		if !s.midAside {
			if strings.TrimSpace(text) == "" {
				continue
			}
			s.clear(s.shared)
			text = thoughtText + text
		}
		s.write(s.style.Faint(text))
		if s.midAside = !ended; ended {
			s.write("\n")
		}
	}
	s.show()
}

// EndText ends the line of a reply or a thought.
func (s *Screen) EndText() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.midText || s.midAside {
		s.clear(true)
		s.show()
	}
}

// Prompt shows the prompt.
func (s *Screen) Prompt() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.prompted && !s.closed {
		s.clear(s.shared)
		s.prompt()
	}
}

// Close removes the prompt for good. Later output is still shown.
func (s *Screen) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed = true; s.prompted {
		s.clear(false)
		s.show()
	}
}

// Typed records that the user has entered a line, so the cursor is on the next.
func (s *Screen) Typed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.prompted, s.midText, s.midAside, s.shown = false, false, false, false
	s.show()
}

func (s *Screen) prompt() {
	s.write(s.style.Strong(promptText))
	s.prompted = true
}

// show writes the status, unless the cursor's line is in use.
func (s *Screen) show() {
	if s.prompted || s.midAside || s.shared && s.midText || s.shown {
		return
	}
	switch {
	case s.status != "":
		s.write(fitting(s.side, s.status))
	case s.doing != "":
		s.write(s.style.Faint(fitting(s.side, s.doing)))
	default:
		return
	}
	s.shown = true
}

// clear moves the cursor of side to an empty line, and that of the reply too if reply is set.
func (s *Screen) clear(reply bool) {
	if s.prompted || s.shown {
		s.write(eraseLine)
	}
	if s.midAside {
		s.write("\n")
	}
	s.prompted, s.midAside, s.shown = false, false, false
	if reply && s.midText {
		s.writeReply("\n")
		s.midText = false
	}
}

func (s *Screen) writeReply(text string) {
	if _, err := io.WriteString(s.reply, text); err != nil && s.Failed != nil {
		s.Failed(err)
	}
}

// write ignores errors: the program continues without its terminal.
func (s *Screen) write(text string) { _, _ = io.WriteString(s.side, text) }
