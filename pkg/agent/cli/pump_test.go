package cli

import (
	"bytes"
	"io"
	"testing"

	"turnstile/internal/process/command"
)

// The pump reads everything, even while nobody reads from it.
func TestPump(t *testing.T) {
	t.Parallel()
	data := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	in, out := io.Pipe()
	p := newPump()
	filled := make(chan struct{})
	go func() {
		p.fill(in)
		close(filled)
	}()
	if _, err := out.Write(data); err != nil {
		t.Fatal(err)
	}
	_ = out.Close()
	<-filled
	if got, err := io.ReadAll(p); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// A pump that holds much waits, and loses nothing.
func TestPumpThatIsFull(t *testing.T) {
	t.Parallel()
	p := newPump()
	const size = 3 * command.MaxLine
	go p.fill(io.LimitReader(zeros{}, size))
	if n, err := io.Copy(io.Discard, p); err != nil || n != size {
		t.Errorf("%d bytes, %v", n, err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }
