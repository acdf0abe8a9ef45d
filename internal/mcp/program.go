package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"turnstile/internal/process/command"
	"turnstile/pkg/agent"
)

// program is a server's process. Its methods do nothing if it is nil: the server is reached by HTTP.
type program struct {
	command *command.Command
	lines   *bufio.Reader
	line    []byte       // the rest of the present one
	left    atomic.Int64 // bytes that it may write until the next call
	flooded atomic.Bool
	ended   atomic.Bool // its output has
}

// maxOutput is how many bytes a server may write in one call, over HTTP in one response.
const maxOutput = 16 << 20

var errFlood = fmt.Errorf("it wrote more than %d MiB in one call, or a line of more than %d MiB", maxOutput>>20, command.MaxLine>>20)

func startProgram(spec command.Spec) (*program, error) {
	c, err := command.Start(spec)
	if err != nil {
		return nil, err
	}
	p := &program{command: c, lines: bufio.NewReaderSize(c.Stdout, 64<<10)}
	p.left.Store(maxOutput)
	return p, nil
}

// Read reads the server's messages. Lines that are none are skipped: many a program greets its user.
func (p *program) Read(to []byte) (int, error) {
	for len(p.line) == 0 {
		line, err := p.next()
		if err != nil {
			return 0, err
		}
		if line = bytes.TrimSpace(line); len(line) > 0 && (line[0] == '{' || line[0] == '[') && json.Valid(line) {
			p.line = append(line, '\n')
		}
	}
	n := copy(to, p.line)
	p.line = p.line[n:]
	return n, nil
}

// next reads a line.
func (p *program) next() (line []byte, err error) {
	for {
		part, err := p.lines.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case p.left.Add(-int64(len(part))) < 0 || len(line) > command.MaxLine:
			p.flooded.Store(true)
			p.kill()
			return nil, errFlood
		case err == nil:
			return line, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			p.ended.Store(errors.Is(err, io.EOF))
			return nil, err
		}
	}
}

// Close implements io.Closer: a read that is in progress ends.
func (p *program) Close() error {
	p.command.CloseOutput()
	return nil
}

// allow allows the output of one more call.
func (p *program) allow() {
	if p != nil {
		p.left.Store(maxOutput)
	}
}

func (p *program) kill() {
	if p != nil {
		p.command.Kill()
	}
}

// rest lends the program no lease until wake.
func (p *program) rest() {
	if p != nil {
		p.command.ForgetStderr()
		p.command.Lend(nil)
		p.command.Rest(p.kill)
	}
}

// wake ends a rest. It returns false if the program cannot go on.
func (p *program) wake(lease agent.Lease) bool {
	if p == nil {
		return true
	}
	p.allow()
	if !p.command.EndRest() {
		return false
	}
	p.command.Lend(lease)
	return true
}

// exitTime is how long a program may take to end after its connection has.
const exitTime = time.Second

// died is how the program ended, if it has, in place of the error of its connection.
func (p *program) died(err error) error {
	if p == nil {
		return err
	}
	if p.flooded.Load() {
		return errFlood
	}
	if !p.ended.Load() {
		return p.command.LastWords(err)
	}
	select {
	case <-p.command.Done():
	case <-time.After(exitTime):
		p.kill()
	}
	status := p.command.Wait()
	if unfit := command.Unfit(status); unfit != nil {
		return p.command.LastWords(unfit)
	}
	if failed := p.command.Failure(status); failed != nil {
		return failed
	}
	return p.command.WithStderr("it has ended")
}

// end ends the program: it closes its stdin, as the protocol wants, then interrupts, then kills it.
func (p *program) end(grace time.Duration) {
	if p == nil {
		return
	}
	_ = p.command.Stdin.Close()
	if grace > 0 {
		select {
		case <-p.command.Done():
		case <-time.After(min(grace/4, exitTime)):
		}
	}
	p.command.Interrupt(grace * 3 / 4)
	p.command.Wait()
	p.command.CloseOutput()
}
