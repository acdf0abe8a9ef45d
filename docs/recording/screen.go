//go:build linux

package main

import (
	"fmt"
	"slices"
	"strings"
)

// columns is the width of every pane.
const columns = 100

// cell is a character and how it looks: the classes of style in svg.go.
type cell struct {
	char  rune
	class string
}

// screen is as much of a terminal as worker and enqueue use. What it does not know
// is an error, for it would be drawn wrong.
type screen struct {
	rows   [][]cell
	y, x   int
	class  string
	escape string // an escape sequence that has begun
	err    error
}

func newScreen(rows int) *screen { return &screen{rows: make([][]cell, rows)} }

func (s *screen) write(text string) {
	for _, r := range text {
		switch {
		case s.escape != "":
			s.sequence(r)
		case r == '\x1b':
			s.escape = string(r)
		case r == '\r':
			s.x = 0
		case r == '\n':
			s.lineFeed()
		case r < ' ':
			s.fail("the control character %q", r)
		default:
			s.put(r)
		}
	}
}

func (s *screen) put(r rune) {
	if s.x == columns {
		s.x = 0
		s.lineFeed()
	}
	for len(s.rows[s.y]) <= s.x {
		s.rows[s.y] = append(s.rows[s.y], cell{char: ' '})
	}
	s.rows[s.y][s.x] = cell{r, s.class}
	s.x++
}

func (s *screen) lineFeed() {
	if s.y+1 < len(s.rows) {
		s.y++
		return
	}
	s.rows = append(s.rows[1:], nil)
}

// sequence takes the next character of an escape sequence.
func (s *screen) sequence(r rune) {
	s.escape += string(r)
	if len(s.escape) == 2 && r == '[' || r < '@' {
		return
	}
	whole := s.escape
	s.escape = ""
	arguments := strings.TrimSuffix(strings.TrimPrefix(whole, "\x1b["), string(r))
	switch {
	case !strings.HasPrefix(whole, "\x1b["):
		s.fail("the escape sequence %q", whole)
	case r == 'K' && (arguments == "" || arguments == "0"):
		s.rows[s.y] = s.rows[s.y][:min(s.x, len(s.rows[s.y]))]
	case r == 'm':
		s.look(arguments)
	default:
		s.fail("the escape sequence %q", whole)
	}
}

// looks are the classes of SGR parameters.
var looks = map[string]string{
	"": "", "0": "", "1": "bold", "2": "faint", "31": "red", "32": "green", "33": "yellow", "36": "cyan",
	"1;31": "bold red", "1;32": "bold green", "1;33": "bold yellow", "1;36": "bold cyan",
}

func (s *screen) look(arguments string) {
	class, ok := looks[arguments]
	if !ok {
		s.fail("the colour %q", arguments)
	}
	s.class = class
}

func (s *screen) fail(format string, args ...any) {
	if s.err == nil {
		s.err = fmt.Errorf("the program printed "+format+", which the recording cannot draw", args...)
	}
}

func (s *screen) contains(text string) bool {
	return slices.ContainsFunc(s.rows, func(row []cell) bool {
		var b strings.Builder
		for _, c := range row {
			b.WriteRune(c.char)
		}
		return strings.Contains(b.String(), text)
	})
}
