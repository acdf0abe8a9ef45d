package exec

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

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
	size int
}

func (t *textReply) copyFrom(r io.Reader) error {
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		if t.size += n; t.size > MaxText {
			return fmt.Errorf("the command wrote more than %d MiB", MaxText>>20)
		}
		t.write(buf[:n])
		switch {
		case errors.Is(err, io.EOF):
			t.send(bytes.TrimRight(t.held, "\r\n"))
			return nil
		case err != nil:
			return fmt.Errorf("read the command's output: %w", err)
		}
	}
}

func (t *textReply) write(p []byte) {
	if len(p) == 0 {
		return
	}
	data := append(t.held, p...)
	cut := len(data) - unfinished(data)
	if trimmed := len(bytes.TrimRight(data[:cut], "\r\n")); cut-trimmed <= heldNewlines {
		cut = trimmed
	}
	t.send(data[:cut])
	t.held = append([]byte(nil), data[cut:]...)
}

func (t *textReply) send(p []byte) {
	if len(p) > 0 {
		t.emit(agent.Event{Type: agent.EventText, Text: strings.ToValidUTF8(string(p), "\uFFFD")})
	}
}

// unfinished is the length of a character at the end of p that lacks bytes.
func unfinished(p []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(p); n++ {
		if tail := p[len(p)-n:]; utf8.RuneStart(tail[0]) {
			if utf8.FullRune(tail) {
				return 0
			}
			return n
		}
	}
	return 0
}
