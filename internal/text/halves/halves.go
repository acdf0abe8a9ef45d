// Package halves joins text whose pieces come as JSON strings, and in which a character of two UTF-16 halves, such as
// an emoji, may be cut in the middle.
package halves

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// Piece is a JSON string. Its Text is without the halves at its ends.
type Piece struct {
	Text      string
	low, high rune // the half at the beginning, at the end; 0: none
}

// escape is the length of one half's escape: \ud83d.
const escape = 6

// UnmarshalJSON implements json.Unmarshaler.
func (p *Piece) UnmarshalJSON(data []byte) error {
	*p = Piece{}
	if err := json.Unmarshal(data, &p.Text); err != nil || len(data) < escape+2 {
		return err
	}
	inside := data[1 : len(data)-1]
	if r := half(inside[:escape]); r >= 0xDC00 {
		p.low, p.Text, inside = r, p.Text[utf8.RuneLen(utf8.RuneError):], inside[escape:]
	}
	if len(inside) < escape {
		return nil
	}
	last := inside[len(inside)-escape:]
	// An odd number of backslashes before it would make its own one a part of the text.
	before := inside[:len(inside)-escape]
	if r := half(last); r > 0 && r < 0xDC00 && (len(before)-len(bytes.TrimRight(before, `\`)))%2 == 0 {
		p.high, p.Text = r, p.Text[:len(p.Text)-utf8.RuneLen(utf8.RuneError)]
	}
	return nil
}

// half is the half that an escape stands for, or 0.
func half(text []byte) rune {
	if text[0] != '\\' || text[1] != 'u' {
		return 0
	}
	n, err := strconv.ParseUint(string(text[2:]), 16, 16)
	if r := rune(n); err == nil && utf16.IsSurrogate(r) {
		return r
	}
	return 0
}

// Empty reports whether there is nothing in the piece.
func (p Piece) Empty() bool { return p.Text == "" && p.low == 0 && p.high == 0 }

// Joiner joins pieces. It is for one goroutine.
type Joiner struct{ high rune }

// Join returns the text of a piece after those before. A half at its end comes with the next piece; a half without
// another is U+FFFD.
func (j *Joiner) Join(p Piece) string {
	if p.Empty() {
		return ""
	}
	text := p.Text
	switch {
	case p.low != 0: // RuneError, unless both are there
		text = string(utf16.DecodeRune(j.high, p.low)) + text
	case j.high != 0:
		text = string(utf8.RuneError) + text
	}
	j.high = p.high
	return text
}
