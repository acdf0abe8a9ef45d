package exec

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"turnstile/internal/process/command"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

// heldNewlines bounds how many trailing newlines are held.
const heldNewlines = 4 << 10

// textReply emits a command's stdout as it comes. It drops newlines at the very end, as $(...) does
// in a shell, so it holds newlines until something follows them. It also holds an incomplete
// character.
type textReply struct {
	emit      func(agent.Event)
	held      []byte
	size      int  // bytes read
	hasOutput bool // something that is not blank was emitted
}

// copyFrom emits r to its end. Before it returns an error it emits all that it has read.
func (t *textReply) copyFrom(r io.Reader) error {
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		if t.size += n; t.size > command.MaxText {
			return fmt.Errorf("the command wrote more than %d MiB", command.MaxText>>20)
		}
		if bad := t.write(buf[:n]); bad != nil {
			return bad
		}
		switch {
		case errors.Is(err, io.EOF):
			if torn := t.held[valid(t.held):]; len(torn) > 0 {
				// The command may have died in the middle of a character.
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
		t.hasOutput = t.hasOutput || len(bytes.TrimSpace(p)) > 0
		t.emit(agent.Event{Type: session.EventText, Text: string(p)})
	}
}

// notUTF8 is the error for the last bytes read.
func (t *textReply) notUTF8(rest []byte) error {
	return fmt.Errorf("the command's output is not UTF-8 (byte %d)", t.size-len(rest)+1)
}

// valid is how many bytes at the beginning of p are complete characters.
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
