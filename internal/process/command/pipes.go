package command

import (
	"errors"
	"io"
	"os"
	"time"

	"turnstile/internal/process/guardian"
)

// pipes are a command's stdin, stdout and stderr.
type pipes struct{ in, out, err pipe }

type pipe struct{ read, write *os.File }

// open makes the pipes, and a socket for stdin if socket is set.
func (p *pipes) open(socket bool) (err error) {
	for _, one := range []*pipe{&p.in, &p.out, &p.err} {
		if socket && one == &p.in {
			one.write, one.read, err = guardian.SocketPair()
		} else {
			one.read, one.write, err = os.Pipe()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// closeTheirs closes the command's ends.
func (p *pipes) closeTheirs() { closeFiles(p.in.read, p.out.write, p.err.write) }

func (p *pipes) closeAll() {
	closeFiles(p.in.read, p.in.write, p.out.read, p.out.write, p.err.read, p.err.write)
}

// closeFiles closes files, which may be nil or closed already.
func closeFiles(files ...*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// drainTime is how long a pipe must stay silent after the command's end to count as empty.
const drainTime = 100 * time.Millisecond

// drainingReader reads a pipe to its end. After a read deadline was set on the pipe, it also ends
// when the pipe is empty.
type drainingReader struct{ file *os.File }

func (d *drainingReader) Read(p []byte) (int, error) {
	n, err := d.file.Read(p)
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return n, err
	}
	// An expired deadline fails a read even if there is something to read.
	if d.file.SetReadDeadline(time.Now().Add(drainTime)) != nil {
		return 0, io.EOF
	}
	if n, err = d.file.Read(p); errors.Is(err, os.ErrDeadlineExceeded) {
		err = io.EOF
	}
	return n, err
}
