package daemon

import (
	"bytes"
	"context"
	"io"
	stdlog "log" //nolint:depguard // net/http and asynqmon write to it
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"turnstile/internal/program/config"
)

const (
	// LastWords is how long a program that ends waits for a reader of its output.
	LastWords = time.Second

	outputBytes = 1 << 20                // kept for a slow reader, as much as by Docker's non-blocking mode
	moment      = 100 * time.Millisecond // for a reader of package log
)

// Output is stdout or stderr of a program that must not wait for their reader: a pipe may be full, a
// terminal stopped by Ctrl-S. It keeps outputBytes, or one longer write. When they are full, it leaves
// out whole writes until it can write what it kept, and puts a line with their number into the gap.
//
// A killed process loses what is not written yet. With a reader who keeps up that is next to nothing.
type Output struct {
	w     io.Writer
	total atomic.Int64              // lines left out since the start
	since atomic.Pointer[time.Time] // the start of the write in progress; nil: there is none

	mu     sync.Mutex
	format config.LogFormat // of the line in a gap
	kept   []byte
	gap    int           // lines left out after kept
	idle   chan struct{} // closed when all is written; nil: it is
}

// NewOutput makes the Output of a file, to which nothing else should write from then on. If package
// log, which net/http and asynqmon use, writes to the file, it then writes to the Output.
func NewOutput(w io.Writer) *Output {
	o := &Output{w: w}
	if stdlog.Writer() == w {
		stdlog.SetOutput(packageLog{o})
	}
	return o
}

// Write implements io.Writer. It does not wait, and returns no error.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.gap > 0 || len(o.kept) > 0 && len(o.kept)+len(p) > outputBytes {
		lines := max(1, bytes.Count(p, []byte("\n")))
		o.gap += lines
		o.total.Add(int64(lines))
		return len(p), nil
	}
	o.kept = append(o.kept, p...)
	if o.idle == nil {
		o.idle = make(chan struct{})
		go o.write()
	}
	return len(p), nil
}

// write writes until nothing is kept. Each line is one write, which other programs on the same pipe
// do not interrupt.
func (o *Output) write() {
	for text := o.take(); len(text) > 0; text = o.take() {
		for line := range bytes.Lines(text) {
			now := time.Now()
			o.since.Store(&now)
			_, _ = o.w.Write(line) // without its output the program continues
		}
		o.since.Store(nil)
	}
}

// take returns what is kept, with the line for a gap at its end. If there is nothing, write ends.
func (o *Output) take() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	text := bytes.NewBuffer(o.kept)
	if o.gap > 0 {
		if !bytes.HasSuffix(o.kept, []byte("\n")) {
			text.WriteByte('\n') // after a prompt or a part of a reply
		}
		slog.New(newHandler(text, slog.LevelWarn, o.format)).Warn("log lines were left out: nobody read the log", "lines", o.gap)
	}
	o.kept, o.gap = nil, 0
	if text.Len() == 0 {
		close(o.idle)
		o.idle = nil
	}
	return text.Bytes()
}

// Flush waits until all is written, but not longer than limit.
func Flush(limit time.Duration, outputs ...*Output) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	for _, o := range outputs {
		o.mu.Lock()
		idle := o.idle
		o.mu.Unlock()
		if idle != nil {
			select {
			case <-idle:
			case <-ctx.Done():
			}
		}
	}
}

// LeftOut returns how many lines were left out since the start.
func (o *Output) LeftOut() int64 { return o.total.Load() }

// Blocked returns for how long the write in progress has waited for the reader.
func (o *Output) Blocked() time.Duration {
	if since := o.since.Load(); since != nil {
		return time.Since(*since)
	}
	return 0
}

// Fd returns the file's descriptor, which shows whether it is a terminal, or an invalid one.
func (o *Output) Fd() uintptr {
	if f, ok := o.w.(interface{ Fd() uintptr }); ok {
		return f.Fd()
	}
	return ^uintptr(0)
}

// packageLog waits a moment for a reader who keeps up: log.Fatal ends the process next.
type packageLog struct{ *Output }

func (l packageLog) Write(p []byte) (int, error) {
	n, err := l.Output.Write(p)
	if l.Blocked() < moment {
		Flush(moment, l.Output)
	}
	return n, err
}
