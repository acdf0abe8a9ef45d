package command

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"unicode/utf8"
)

// Limits of a program's output in one turn. Beyond them the turn fails.
const (
	MaxText   = 8 << 20  // bytes of the reply's text, which a worker holds in memory and stores
	MaxLine   = 8 << 20  // bytes of one line
	MaxOutput = 64 << 20 // bytes of all lines
)

// ErrTooMuchText is the error about output that made the text longer than MaxText.
var ErrTooMuchText = fmt.Errorf("with it the turn has more than %d MiB of text", MaxText>>20)

// LineError is an error about one line of a program's output.
type LineError struct {
	Err error

	// Cut reports that it was the last line and had no end. The program may have died while
	// writing it; then its exit code is the better error.
	Cut bool
}

// Error returns the line's number and the problem.
func (e *LineError) Error() string { return e.Err.Error() }

func (e *LineError) Unwrap() error { return e.Err }

// Lines calls each for every line of r that is not blank, trimmed. Every error is a *LineError,
// except errors of reading. A panic in each becomes an error about its line.
func Lines(r io.Reader, logger *slog.Logger, each func(line []byte) error) error {
	limited := &io.LimitedReader{R: r, N: MaxOutput + 1}
	return linesOf(limited, limited, logger, each)
}

// CutLines is Lines with a Cutter: no line is too long.
func CutLines(r io.Reader, logger *slog.Logger, each func(line []byte) error) error {
	limited := &io.LimitedReader{R: r, N: MaxOutput + 1}
	return linesOf(NewCutter(limited), limited, logger, each)
}

func linesOf(from io.Reader, limited *io.LimitedReader, logger *slog.Logger, each func(line []byte) error) error {
	lines := bufio.NewScanner(from)
	lines.Buffer(make([]byte, 0, 16<<10), MaxLine+1)
	cut := false
	lines.Split(func(data []byte, atEOF bool) (int, []byte, error) {
		cut = atEOF && len(data) > 0 && bytes.IndexByte(data, '\n') < 0
		return bufio.ScanLines(data, atEOF)
	})
	n := 0
	for lines.Scan() {
		n++
		if limited.N <= 0 {
			break
		}
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		err := errors.New("it is not UTF-8")
		if utf8.Valid(line) {
			err = Contained(logger, func() error { return each(line) })
		}
		if err != nil {
			return &LineError{fmt.Errorf("line %d of the command's output: %w", n, err), cut}
		}
	}
	switch {
	case errors.Is(lines.Err(), bufio.ErrTooLong):
		return &LineError{fmt.Errorf("line %d of the command's output is longer than %d MiB", n+1, MaxLine>>20), false}
	case limited.N <= 0:
		return &LineError{fmt.Errorf("the command wrote more than %d MiB", MaxOutput>>20), false}
	case lines.Err() != nil:
		return fmt.Errorf("read the command's output: %w", lines.Err())
	}
	return nil
}
