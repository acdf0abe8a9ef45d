package command

import (
	"errors"
	"fmt"
	"io"
)

// Cutter cuts JSON lines that are longer than MaxLine, so that one tool with much output does not cost the turn its
// work: a string is cut where the line becomes too long, with a mark, and later ones after a few characters. Keys
// and short values stay.
type Cutter struct {
	from    io.Reader
	line    int  // bytes of the line so far, without those cut
	cut     int  // bytes that were cut from it
	inside  bool // a string
	length  int  // of it
	marked  int  // bytes of the mark in it; -1: it is not cut
	escaped int  // bytes of an escape to come: 5 after the backslash, then up to 4 digits
}

// NewCutter returns a reader of from with its lines cut.
func NewCutter(from io.Reader) *Cutter { return &Cutter{from: from} }

const (
	roomy    = MaxLine - 256<<10 // bytes of a line before strings are cut
	shortest = 256               // bytes of a string that are always kept
	cutMark  = "... [cut: the line is longer than 8 MiB]"
)

var errEndlessLine = fmt.Errorf("it wrote a line longer than %d MiB", MaxOutput>>20)

// Read implements io.Reader.
func (c *Cutter) Read(to []byte) (int, error) {
	for {
		n, err := c.from.Read(to)
		n = c.keep(to[:n])
		if c.cut > MaxOutput {
			err = errors.Join(errEndlessLine, err)
		}
		if n > 0 || err != nil || len(to) == 0 {
			return n, err
		}
	}
}

// keep cuts a part of a line in place, and returns the length of what remains.
func (c *Cutter) keep(part []byte) int {
	kept := 0
	for _, b := range part {
		if b == '\n' {
			*c = Cutter{from: c.from, line: -1} // -1: this byte
		} else if b = c.next(b); b == 0 {
			c.cut++
			continue
		}
		part[kept] = b
		kept++
		c.line++
	}
	return kept
}

// next returns the byte to keep in place of one, or 0 if it is cut.
func (c *Cutter) next(b byte) byte {
	begin := c.escaped == 0 && b&0xC0 != 0x80 // of a character
	switch {
	case c.escaped == 5 && b != 'u':
		c.escaped = 0
	case c.escaped > 0:
		c.escaped--
	case !c.inside:
		c.inside, c.length, c.marked = b == '"', 0, -1
		return c.unless(c.line >= MaxLine-1, b)
	case b == '"':
		c.inside = false
		return c.unless(c.line >= MaxLine-1, b)
	case b == '\\':
		c.escaped = 5
	}
	c.length++
	if c.marked < 0 && begin && c.line >= roomy && c.length > shortest {
		c.marked = 0
	}
	if c.marked < 0 {
		return c.unless(c.line >= MaxLine-1, b)
	}
	if c.marked == len(cutMark) {
		return 0
	}
	c.marked++
	return cutMark[c.marked-1]
}

func (c *Cutter) unless(cut bool, b byte) byte {
	if cut {
		return 0
	}
	return b
}
