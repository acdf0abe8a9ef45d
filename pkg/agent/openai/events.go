package openai

import (
	"bufio"
	"bytes"
	"io"
	"iter"
)

// maxEvent limits the data of one event, and each line of a stream.
const maxEvent = 32 << 20

// events yields the data of a stream's server-sent events, or the error that ended it.
// The data is valid until the next event. A line break stands at its end. An event
// that the stream's end interrupts is dropped.
//
// It is not a library because those measured cost more than decoding the events
// does, read lines without a limit, or leave a goroutine behind. A test compares it with
// the reader in OpenAI's SDK.
func events(r io.Reader, limit int) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		lines := bufio.NewScanner(r)
		lines.Buffer(nil, limit)
		var data []byte
		for lines.Scan() {
			line := lines.Bytes()
			if len(line) == 0 && len(data) > 0 {
				if !yield(data, nil) {
					return
				}
				data = data[:0]
			}
			name, value, _ := bytes.Cut(line, []byte(":"))
			if string(name) != "data" {
				continue
			}
			data = append(data, bytes.TrimPrefix(value, []byte(" "))...)
			data = append(data, '\n')
			if len(data) > limit {
				yield(nil, bufio.ErrTooLong)
				return
			}
		}
		if err := lines.Err(); err != nil {
			yield(nil, err)
		}
	}
}
