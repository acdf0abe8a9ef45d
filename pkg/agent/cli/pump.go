package cli

import (
	"bytes"
	"io"
	"sync"

	"turnstile/internal/process/command"
)

// pump reads a program's stdout into memory at once, however long its lines take to handle. Claude
// Code and Gemini CLI exit without waiting for a full pipe: a reader that handled lines in between
// lost the end of a long reply. Output that arrives within a pause of the reader must fit into the
// pipe: see unreadOutput.
type pump struct {
	mu   sync.Mutex
	cond *sync.Cond
	buf  bytes.Buffer
	err  error // why nothing more comes
}

func newPump() *pump {
	p := &pump{}
	p.cond = sync.NewCond(&p.mu)
	return p
}

// fill reads r to its end.
func (p *pump) fill(r io.Reader) {
	chunk := make([]byte, 64<<10)
	for {
		n, err := r.Read(chunk)
		p.mu.Lock()
		for p.buf.Len() > command.MaxLine {
			p.cond.Wait() // memory is full until the reader has taken some
		}
		p.buf.Write(chunk[:n])
		p.err = err
		p.mu.Unlock()
		p.cond.Broadcast()
		if err != nil {
			return
		}
	}
}

// Read reads from memory.
func (p *pump) Read(to []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.buf.Len() == 0 {
		if p.err != nil {
			return 0, p.err
		}
		p.cond.Wait()
	}
	n, _ := p.buf.Read(to)
	p.cond.Broadcast()
	return n, nil
}
