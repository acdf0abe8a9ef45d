package model

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"iter"
)

// maxEvent limits one event, in bytes.
const maxEvent = 32 << 20

// events yields the data of each server-sent event of a stream, with a line break at its end, and
// then the error that ended the stream, if one did. The data is valid until the next event. An event
// needs no blank line after it: one at the stream's end is whole, and so is a line of data that is JSON by
// itself. An event that an error interrupts is dropped. An event longer than limit is an error.
//
// No library fits: those that were measured read lines of any length, or take 20 times as long.
func events(r io.Reader, limit int) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		lines := bufio.NewScanner(r)
		lines.Buffer(nil, limit)
		lines.Split(anyLines())
		var data []byte
		failed := false
		flush := func() bool {
			if failed && len(data) > 0 {
				yield(nil, newStatusError(0, nil, data))
				return false
			}
			more := len(bytes.TrimSpace(data)) == 0 || yield(data, nil)
			data = data[:0]
			return more
		}
		for lines.Scan() {
			line := bytes.TrimPrefix(lines.Bytes(), []byte("\xEF\xBB\xBF"))
			if len(line) == 0 && !flush() {
				return
			}
			name, value, _ := bytes.Cut(line, []byte(":"))
			if len(line) == 0 || string(name) == "event" {
				failed = string(bytes.TrimSpace(value)) == "error"
			}
			if string(name) != "data" {
				continue
			}
			value = bytes.TrimPrefix(value, []byte(" "))
			whole := isDone(value) || bytes.HasPrefix(value, []byte("{")) && json.Valid(value)
			if whole && !flush() {
				return
			}
			data = append(data, value...)
			data = append(data, '\n')
			if len(data) > limit {
				yield(nil, bufio.ErrTooLong)
				return
			}
			if whole && !flush() {
				return
			}
		}
		if err := lines.Err(); err != nil {
			yield(nil, err)
			return
		}
		flush()
	}
}

func isDone(data []byte) bool { return bytes.HasPrefix(bytes.TrimSpace(data), []byte("[DONE]")) }

// anyLines splits at LF, CR LF and CR. It does not wait for the byte after a CR, which may come with the next event.
func anyLines() bufio.SplitFunc {
	afterCR := false
	return func(data []byte, atEOF bool) (advance int, token []byte, err error) {
		from := 0
		if afterCR && len(data) > 0 {
			afterCR = false
			if data[0] == '\n' {
				from = 1
			}
		}
		rest := data[from:]
		end := bytes.IndexByte(rest, '\n')
		if cr := bytes.IndexByte(rest[:max(end, 0)], '\r'); end > 0 && cr >= 0 {
			end = cr
		} else if end < 0 {
			end = bytes.IndexByte(rest, '\r')
		}
		if end >= 0 {
			afterCR = rest[end] == '\r'
			return from + end + 1, rest[:end], nil
		}
		if atEOF && len(rest) > 0 {
			return len(data), rest, nil
		}
		return from, nil, nil
	}
}
