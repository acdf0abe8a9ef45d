package exec

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"turnstile/internal/process/command"
	"turnstile/pkg/agent"
)

// heldNewlines bounds how many trailing newlines are held back.
const heldNewlines = 4 << 10

// textReply passes a command's stdout on as it comes. Newlines at the very end
// are dropped, as $(...) drops them in a shell; so they are held back until
// something follows. So is a character of which only the beginning has come.
type textReply struct {
	emit func(agent.Event)
	held []byte
	size int  // bytes read
	said bool // something that is not blank was passed on
}

// copyFrom reads to the end of r. What comes before an error is passed on.
func (t *textReply) copyFrom(r io.Reader) error {
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		if t.size += n; t.size > MaxText {
			return fmt.Errorf("the command wrote more than %d MiB", MaxText>>20)
		}
		if bad := t.write(buf[:n]); bad != nil {
			return bad
		}
		switch {
		case errors.Is(err, io.EOF):
			if torn := t.held[valid(t.held):]; len(torn) > 0 {
				// The command may have died in the middle of it.
				return &command.LineError{Err: t.notUTF8(torn), Cut: true}
			}
			return nil
		case err != nil:
			return fmt.Errorf("read the command's output: %w", err)
		}
	}
}

func (t *textReply) write(p []byte) error {
	if len(p) == 0 {
		return nil
	}
	data := append(t.held, p...)
	cut := valid(data)
	rest := data[cut:]
	if len(rest) > 0 && utf8.FullRune(rest) {
		t.send(bytes.TrimRight(data[:cut], "\r\n"))
		return t.notUTF8(rest)
	}
	if trimmed := len(bytes.TrimRight(data[:cut], "\r\n")); cut-trimmed <= heldNewlines {
		cut = trimmed
	}
	t.send(data[:cut])
	t.held = append([]byte(nil), data[cut:]...)
	return nil
}

func (t *textReply) send(p []byte) {
	if len(p) > 0 {
		t.said = t.said || len(bytes.TrimSpace(p)) > 0
		t.emit(agent.Event{Type: agent.EventText, Text: string(p)})
	}
}

// notUTF8 is the error about the last bytes that were read.
func (t *textReply) notUTF8(rest []byte) error {
	return fmt.Errorf("the command's output is not UTF-8 (byte %d)", t.size-len(rest)+1)
}

// valid is how many bytes at the beginning of p are whole characters.
func valid(p []byte) int {
	if utf8.Valid(p) {
		return len(p)
	}
	n := 0
	for {
		r, size := utf8.DecodeRune(p[n:])
		if r == utf8.RuneError && size <= 1 {
			return n
		}
		n += size
	}
}
